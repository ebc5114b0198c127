a:
  test.nop:
    - require:
      - test: b
        cmd: c
