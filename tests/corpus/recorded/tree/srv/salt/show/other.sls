other:
  test.succeed_with_changes: []
