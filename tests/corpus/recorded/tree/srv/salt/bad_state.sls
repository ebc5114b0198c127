bad_state:
  test.fail_with_changes: []
