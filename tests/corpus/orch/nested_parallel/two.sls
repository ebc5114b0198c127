j:
  salt.state:
    - tgt: '*'
    - sls: slow_b
