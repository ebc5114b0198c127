a:
  test.fail_without_changes: []
b:
  test.succeed_with_changes: []
