a:
  salt.state:
    - tgt: '*'
    - sls: mixed
    - exclude: [{id: mixed_bad}]
b:
  salt.state:
    - tgt: '*'
    - sls: [good, bad]
    - exclude: bad
