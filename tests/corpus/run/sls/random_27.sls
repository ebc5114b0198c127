s0:
  test.succeed_with_changes: []
s1:
  test.nop:
    - watch_any:
      - test: s0
s2:
  test.fail_without_changes:
    - watch:
      - test: s0
