a:
  salt.state:
    - tgt: '*'
    - sls: broken
b:
  salt.state:
    - tgt: '*'
    - sls: good
