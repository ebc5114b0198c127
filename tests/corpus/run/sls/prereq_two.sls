a:
  test.succeed_without_changes: []
b:
  test.succeed_with_changes: []
p:
  test.succeed_with_changes:
    - prereq:
      - test: a
      - test: b
p2:
  test.succeed_with_changes:
    - prereq:
      - test: b
