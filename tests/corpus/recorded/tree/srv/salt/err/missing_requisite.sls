a:
  test.nop:
    - require:
      - test: nope
b:
  test.nop: []
