a:
  test.nop: x
