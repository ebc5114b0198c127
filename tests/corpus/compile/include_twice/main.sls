include:
  - one
  - two
m:
  test.nop: []
