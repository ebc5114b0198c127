s0:
  test.succeed_without_changes: []
s1:
  test.fail_without_changes:
    - onchanges:
      - test: s0
s2:
  test.fail_without_changes:
    - onfail:
      - test: s0
