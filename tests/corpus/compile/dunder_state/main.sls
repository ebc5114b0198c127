a:
  test.nop: []
  __x: []
__b:
  test.nop: []
