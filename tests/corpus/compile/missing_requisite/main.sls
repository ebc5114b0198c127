a:
  test.nop:
    - require:
      - test: nginy
nginx:
  test.nop: []
