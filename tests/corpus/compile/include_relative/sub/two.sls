two:
  test.nop: []
