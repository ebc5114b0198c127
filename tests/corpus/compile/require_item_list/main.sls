a:
  test.nop:
    - require:
      - test: [x, 'y']
