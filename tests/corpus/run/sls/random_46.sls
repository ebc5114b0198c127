s0:
  test.fail_without_changes: []
s1:
  test.fail_with_changes:
    - onfail_any:
      - test: s0
    - onfail:
      - test: s0
    - failhard: True
s2:
  test.succeed_without_changes:
    - watch:
      - test: s1
    - onfail:
      - test: s0
