a:
  test.nop: []
b:
  test.nop: []
c:
  test.nop:
    - order: -5
    - require:
      - test: b
