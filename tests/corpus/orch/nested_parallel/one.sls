i:
  salt.state:
    - tgt: '*'
    - sls: slow_a
