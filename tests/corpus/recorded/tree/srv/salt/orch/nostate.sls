x:
  salt.state:
    - tgt: '*'
