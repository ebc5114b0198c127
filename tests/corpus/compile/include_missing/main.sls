include:
  - othr
m:
  test.nop: []
