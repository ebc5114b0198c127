one step:
  test.succeed_with_changes
