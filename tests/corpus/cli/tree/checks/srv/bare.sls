bare:
  test.nop: []
