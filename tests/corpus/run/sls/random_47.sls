s0:
  test.succeed_with_changes: []
s1:
  test.fail_with_changes: []
s2:
  test.succeed_with_changes:
    - onfail:
      - test: s1
      - test: s0
    - watch_any:
      - test: s0
      - test: s1
s3:
  test.succeed_with_changes: []
s4:
  test.succeed_without_changes:
    - watch:
      - test: s1
      - test: s3
    - onchanges:
      - test: s2
      - test: s0
    - require:
      - test: s1
      - test: s2
      - test: s3
