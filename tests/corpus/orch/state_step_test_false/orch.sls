a:
  salt.state:
    - tgt: '*'
    - sls: good
    - test: False
