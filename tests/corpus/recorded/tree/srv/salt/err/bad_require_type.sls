a:
  test.nop:
    - require: foo
