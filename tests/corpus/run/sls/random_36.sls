s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes:
    - onfail_all:
      - test: s0
    - require:
      - test: s0
s2:
  test.fail_with_changes:
    - require:
      - test: s0
      - test: s1
s3:
  test.succeed_with_changes:
    - watch:
      - test: s1
      - test: s2
    - onfail:
      - test: s1
      - test: s2
      - test: s0
s4:
  test.succeed_with_changes:
    - watch:
      - test: s0
      - test: s3
