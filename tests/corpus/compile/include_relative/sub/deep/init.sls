include:
  - ..two
d:
  test.nop: []
