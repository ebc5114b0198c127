mixed_good:
  test.succeed_with_changes: []
mixed_bad:
  test.fail_with_changes: []
