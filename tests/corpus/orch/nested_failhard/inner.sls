i:
  salt.state:
    - tgt: '*'
    - sls: bad
