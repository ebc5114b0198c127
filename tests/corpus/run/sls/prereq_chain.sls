a:
  test.succeed_with_changes: []
p:
  test.succeed_with_changes:
    - prereq:
      - test: a
q:
  test.succeed_with_changes:
    - prereq:
      - test: p
