a:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{salt: nosuch}]
