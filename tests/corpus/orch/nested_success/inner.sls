i:
  salt.state:
    - tgt: '*'
    - sls: good
j:
  test.nop:
    - require: [{salt: i}]
