s0:
  test.fail_with_changes: []
s1:
  test.succeed_with_changes:
    - require_any:
      - test: s0
    - order: 3
s2:
  test.fail_with_changes:
    - require:
      - test: s1
      - test: s0
    - onfail:
      - test: s0
      - test: s1
    - watch:
      - test: s1
      - test: s0
s3:
  test.fail_with_changes: []
s4:
  test.succeed_with_changes:
    - watch:
      - test: s1
      - test: s0
s5:
  test.succeed_with_changes:
    - onfail:
      - test: s1
      - test: s2
      - test: s4
    - onfail_all:
      - test: s1
