exclude: foo
m:
  test.nop: []
