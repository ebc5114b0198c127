base:
  '*':
    - show
  'kernel:Linux':
    - match: grain
    - good_state
  'nomatch*':
    - bad_state
