s0:
  test.fail_with_changes: []
s1:
  test.nop: []
s2:
  test.fail_with_changes:
    - onfail:
      - test: s0
      - test: s1
    - onfail_all:
      - test: s0
      - test: s1
