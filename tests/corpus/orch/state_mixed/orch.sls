a:
  salt.state:
    - tgt: '*'
    - sls: mixed
