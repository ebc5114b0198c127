a:
  test.configurable_test_state:
    - changes: False
    - comment: from a
    - use_in:
      - test: b
b:
  test.configurable_test_state: []
