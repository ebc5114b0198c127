a:
  test.succeed_with_changes: []
p:
  test.succeed_with_changes: []
q:
  test.succeed_with_changes:
    - prereq_in:
      - test: p
