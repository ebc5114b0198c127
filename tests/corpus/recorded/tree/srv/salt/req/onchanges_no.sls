a:
  test.succeed_without_changes: []
b:
  test.succeed_with_changes:
    - onchanges:
      - test: a
