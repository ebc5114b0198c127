w:
  test.succeed_without_changes:
    - watch:
      - test: a
a:
  test.succeed_with_changes: []
