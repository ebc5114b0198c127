include:
  - .one
  - .deep
s:
  test.nop: []
