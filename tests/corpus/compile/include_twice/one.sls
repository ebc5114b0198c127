include:
  - two
one:
  test.nop: []
