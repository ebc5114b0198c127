a:
  test.nop:
