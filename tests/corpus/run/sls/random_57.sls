s0:
  test.succeed_without_changes: []
s1:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s0
s2:
  test.succeed_with_changes: []
