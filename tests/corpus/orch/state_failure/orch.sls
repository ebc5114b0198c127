a:
  salt.state:
    - tgt: '*'
    - sls: bad
b:
  salt.state:
    - tgt: '*'
    - sls: good
