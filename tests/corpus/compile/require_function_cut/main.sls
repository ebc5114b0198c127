a:
  test.nop: []
b:
  test.nop:
    - require:
      - test.nop: a
