s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.fail_with_changes:
    - watch:
      - test: s1
      - test: s0
    - failhard: True
