bad_state:
  salt.state:
    - tgt: '*'
    - sls: bad_state
    - failhard: True
next:
  salt.state:
    - tgt: '*'
    - sls: good_state
