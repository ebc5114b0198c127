s0:
  test.fail_without_changes: []
s1:
  test.succeed_without_changes:
    - require_any:
      - test: s0
s2:
  test.succeed_without_changes: []
