base:
  '*':
    - single
    - bare
