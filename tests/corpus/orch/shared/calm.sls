calm:
  test.succeed_without_changes: []
