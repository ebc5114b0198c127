include:
  - base: other
m:
  test.nop: []
