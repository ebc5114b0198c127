s0:
  test.succeed_with_changes:
    - order: 1
s1:
  test.succeed_with_changes:
    - onfail:
      - test: s0
s2:
  test.fail_with_changes:
    - watch:
      - test: s0
s3:
  test.fail_without_changes:
    - onchanges:
      - test: s0
    - onfail_any:
      - test: s1
      - test: s0
      - test: s2
s4:
  test.succeed_with_changes: []
