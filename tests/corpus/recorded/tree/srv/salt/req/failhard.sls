a:
  test.fail_without_changes:
    - failhard: True
b:
  test.succeed_without_changes: []
