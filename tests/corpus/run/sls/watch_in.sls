a:
  test.succeed_with_changes:
    - watch_in:
      - test: w
w:
  test.succeed_without_changes: []
