a:
  salt.state:
    - tgt: '*'
    - sls: good
    - queue: True
