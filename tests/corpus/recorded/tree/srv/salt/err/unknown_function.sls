a:
  test.nosuch: []
b:
  test.nop: []
