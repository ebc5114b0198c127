s0:
  test.fail_with_changes: []
s1:
  test.fail_without_changes:
    - onfail_all:
      - test: s0
s2:
  test.succeed_with_changes:
    - watch:
      - test: s0
    - failhard: True
s3:
  test.succeed_with_changes:
    - require:
      - test: s2
s4:
  test.fail_with_changes:
    - require:
      - test: s2
      - test: s3
    - watch:
      - test: s3
      - test: s1
s5:
  test.succeed_without_changes:
    - require:
      - test: s1
      - test: s0
