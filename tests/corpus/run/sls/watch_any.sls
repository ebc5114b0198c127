a1:
  test.succeed_without_changes: []
a2:
  test.succeed_with_changes: []
b:
  test.nop:
    - watch_any:
      - test: a1
      - test: a2
