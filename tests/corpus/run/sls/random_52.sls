s0:
  test.fail_with_changes: []
s1:
  test.fail_with_changes: []
s2:
  test.succeed_without_changes: []
