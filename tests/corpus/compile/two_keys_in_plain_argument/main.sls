a:
  test.configurable_test_state:
    - changes: True
      comment: x
