a:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{salt: b}]
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{salt: a}]
