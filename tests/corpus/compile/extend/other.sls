o:
  test.configurable_test_state:
    - changes: True
    - require:
      - test: p
p:
  test.nop: []
