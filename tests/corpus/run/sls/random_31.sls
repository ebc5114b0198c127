s0:
  test.fail_without_changes: []
s1:
  test.succeed_with_changes:
    - onfail:
      - test: s0
    - onfail_any:
      - test: s0
s2:
  test.fail_without_changes:
    - onfail_all:
      - test: s1
    - onfail:
      - test: s1
      - test: s0
