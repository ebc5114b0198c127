w:
  test.succeed_without_changes:
    - watch:
      - test: a
a:
  test.succeed_without_changes: []
