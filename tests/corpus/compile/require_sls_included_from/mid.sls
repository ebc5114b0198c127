include:
  - leaf
m:
  test.nop: []
