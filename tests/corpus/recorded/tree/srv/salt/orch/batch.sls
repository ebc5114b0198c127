x:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - batch: 1
