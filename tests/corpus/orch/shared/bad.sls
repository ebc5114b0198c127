bad:
  test.fail_without_changes: []
