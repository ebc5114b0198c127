s0:
  test.succeed_without_changes: []
s1:
  test.fail_with_changes:
    - require:
      - test: s0
    - onchanges:
      - test: s0
s2:
  test.succeed_with_changes:
    - require:
      - test: s1
