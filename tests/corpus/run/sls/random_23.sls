s0:
  test.fail_with_changes: []
s1:
  test.succeed_with_changes:
    - watch:
      - test: s0
s2:
  test.fail_with_changes:
    - onfail_any:
      - test: s0
      - test: s1
    - onfail_all:
      - test: s1
      - test: s0
