i:
  salt.state:
    - tgt: '*'
    - sls: bad
    - failhard: True
j:
  salt.state:
    - tgt: '*'
    - sls: good
