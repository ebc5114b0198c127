a:
  salt.state:
    - tgt: '*'
    - sls: good
    - test: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
