a:
  salt.state:
    - tgt: '*'
    - highstate: True
