a1:
  test.nop: []
a2:
  test.nop: []
b:
  test.nop:
    - order: 1
    - require:
      - test: a*
