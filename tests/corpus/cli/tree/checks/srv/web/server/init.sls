made:
  test.nop: []
