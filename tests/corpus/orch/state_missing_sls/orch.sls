a:
  salt.state:
    - tgt: '*'
    - sls: nosuch
