include:
  - other
m:
  test.nop: []
