d:
  test.nop:
    - order: last
c:
  test.nop:
    - order: -2
x:
  test.nop: []
b:
  test.nop:
    - order: 5
a:
  test.nop:
    - order: first
y:
  test.nop:
    - order: 10001
z:
  test.nop:
    - order: 2.5
w:
  test.nop:
    - order: strange
