configured:
  test.nop: []
