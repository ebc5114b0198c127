config:
  test.nop: []
