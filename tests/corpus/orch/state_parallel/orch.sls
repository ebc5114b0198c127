a:
  salt.state:
    - tgt: '*'
    - sls: slow_a
    - parallel: True
b:
  salt.state:
    - tgt: '*'
    - sls: slow_b
    - parallel: True
c:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [a, b]
