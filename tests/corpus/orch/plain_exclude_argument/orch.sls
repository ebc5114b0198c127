a:
  salt.state:
    - tgt: '*'
    - sls: good
b:
  salt.state:
    - tgt: '*'
    - sls: bad
