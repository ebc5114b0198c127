c:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{salt: b}]
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{salt: a}]
a:
  salt.state:
    - tgt: '*'
    - sls: bad
