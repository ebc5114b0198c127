i:
  salt.state:
    - tgt: '*'
    - sls: good
