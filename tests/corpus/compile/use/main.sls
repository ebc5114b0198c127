a:
  test.configurable_test_state:
    - name: foo
    - changes: True
    - result: True
    - comment: from a
b:
  test.configurable_test_state:
    - comment: own
    - use:
      - test: a
