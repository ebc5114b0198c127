s0:
  test.succeed_without_changes: []
s1:
  test.succeed_without_changes:
    - require:
      - test: s0
s2:
  test.fail_without_changes:
    - onfail_any:
      - test: s0
s3:
  test.succeed_with_changes: []
s4:
  test.fail_with_changes:
    - watch:
      - test: s0
    - onchanges:
      - test: s3
