a:
  test.configurable_test_state:
    - changes: False
b:
  test.configurable_test_state:
    - comment: from b
    - changes: True
c:
  test.configurable_test_state:
    - use:
      - test: a
      - test: b
