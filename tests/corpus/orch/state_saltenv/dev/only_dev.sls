only_dev:
  test.succeed_with_changes: []
