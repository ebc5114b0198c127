s0:
  test.nop: []
s1:
  test.fail_with_changes:
    - watch:
      - test: s0
s2:
  test.succeed_without_changes: []
