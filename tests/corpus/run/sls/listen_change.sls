l:
  test.succeed_without_changes:
    - listen:
      - test: a
a:
  test.succeed_with_changes: []
z:
  test.succeed_without_changes: []
