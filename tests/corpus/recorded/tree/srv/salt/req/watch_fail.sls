w:
  test.succeed_without_changes:
    - watch:
      - test: a
a:
  test.fail_without_changes: []
