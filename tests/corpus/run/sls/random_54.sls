s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.fail_with_changes:
    - onfail:
      - test: s1
    - watch:
      - test: s1
      - test: s0
    - failhard: True
s3:
  test.succeed_with_changes:
    - watch:
      - test: s2
s4:
  test.succeed_with_changes:
    - require:
      - test: s3
    - watch:
      - test: s3
      - test: s2
