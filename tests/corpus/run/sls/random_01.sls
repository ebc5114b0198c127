s0:
  test.fail_without_changes: []
s1:
  test.fail_with_changes:
    - watch:
      - test: s0
    - onfail_any:
      - test: s0
    - order: 4
s2:
  test.succeed_with_changes:
    - watch:
      - test: s0
    - onfail:
      - test: s0
      - test: s1
    - require:
      - test: s1
s3:
  test.fail_without_changes:
    - watch:
      - test: s1
      - test: s0
