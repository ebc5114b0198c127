b:
  test.nop:
    - require:
      - test: a
a:
  test.nop: []
