a:
  test.nop:
    - compensate: nothing
b:
  test.nop:
    - compensate: b
c:
  test.nop:
    - compensate: [{test: d}]
d:
  test.nop:
    - compensate: c
e:
  test.nop:
    - require: [{test: d}]
f:
  test.nop:
    - finally: True
    - compensate: d
g:
  test.nop:
    - require: [f]
