b:
  test.nop: []
a:
  test.nop: []
