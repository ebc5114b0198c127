a:
  salt.state:
    - tgt: '*'
    - sls: good
