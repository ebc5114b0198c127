a:
  test.nop:
    - require:
      - test: a
