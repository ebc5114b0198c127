x:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - concurrent: True
    - batch: 1
