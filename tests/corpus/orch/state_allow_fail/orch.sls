a:
  salt.state:
    - tgt: '*'
    - sls: bad
    - allow_fail: 1
b:
  salt.state:
    - tgt: '*'
    - sls: bad
    - allow_fail: '0'
