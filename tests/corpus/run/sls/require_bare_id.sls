a:
  test.nop: []
b:
  test.nop:
    - require:
      - a
