a:
  salt.state:
    - tgt: '*'
    - sls: bad
