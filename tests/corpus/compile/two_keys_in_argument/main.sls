a:
  test.nop:
    - require: []
      name: x
