a:
  test.nop:
    - require:
      - test: null
