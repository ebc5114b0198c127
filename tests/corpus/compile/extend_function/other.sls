o:
  test.nop: []
