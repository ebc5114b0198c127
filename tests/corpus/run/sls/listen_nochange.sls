l:
  test.succeed_without_changes:
    - listen:
      - test: a
a:
  test.succeed_without_changes: []
