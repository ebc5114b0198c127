a:
  salt.state:
    - tgt: '*'
