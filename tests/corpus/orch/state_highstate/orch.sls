a:
  salt.state:
    - tgt: '*'
    - highstate: True
b:
  salt.state:
    - tgt: '*'
    - top: other_top.sls
