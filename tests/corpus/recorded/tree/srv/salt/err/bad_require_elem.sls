a:
  test.nop:
    - require:
      - {test: b, cmd: c}
b:
  test.nop: []
