good:
  test.succeed_with_changes: []
