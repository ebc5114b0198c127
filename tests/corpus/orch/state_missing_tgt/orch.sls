a:
  salt.state:
    - sls: good
b:
  salt.state:
    - tgt: '*'
    - sls: good
