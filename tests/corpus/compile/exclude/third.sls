t:
  test.nop: []
u:
  test.nop: []
