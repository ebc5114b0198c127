5:
  test.nop: []
