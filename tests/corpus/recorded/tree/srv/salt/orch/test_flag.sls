x:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - test: True
