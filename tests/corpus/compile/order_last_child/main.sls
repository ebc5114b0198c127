a:
  test.nop:
    - order: last
b:
  test.nop: []
c:
  test.nop:
    - order: first
    - require:
      - test: a
