p:
  test.fail_without_changes:
    - prereq:
      - test: a
a:
  test.succeed_with_changes: []
