a:
  salt.state:
    - tgt: '*'
    - sls: good
b:
  test.nop:
    - require_in: [{salt: a}]
c:
  salt.state:
    - tgt: '*'
    - sls: bad
    - onfail_in: [{salt: d}]
d:
  salt.function:
    - name: test.ping
    - tgt: '*'
