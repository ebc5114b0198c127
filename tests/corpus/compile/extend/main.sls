include:
  - other
extend:
  o:
    test.configurable_test_state:
      - changes: False
      - comment: new
      - require:
        - test: m
m:
  test.nop: []
