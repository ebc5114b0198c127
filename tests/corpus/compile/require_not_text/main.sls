a:
  test.nop:
    - require:
      - test: 5
