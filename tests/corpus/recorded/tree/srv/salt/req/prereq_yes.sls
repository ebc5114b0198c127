p:
  test.succeed_with_changes:
    - prereq:
      - test: a
a:
  test.succeed_with_changes: []
