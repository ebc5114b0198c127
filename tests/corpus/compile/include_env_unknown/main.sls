include:
  - dev: other
m:
  test.nop: []
