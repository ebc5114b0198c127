a:
  salt.state:
    - tgt: '*'
    - sls: bad
    - failhard: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
