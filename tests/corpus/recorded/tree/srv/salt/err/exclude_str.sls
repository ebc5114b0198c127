exclude: foo
a:
  test.nop: []
