s0:
  test.fail_without_changes: []
s1:
  test.succeed_without_changes:
    - onfail:
      - test: s0
    - watch:
      - test: s0
s2:
  test.nop:
    - require:
      - test: s0
      - test: s1
s3:
  test.nop:
    - watch_any:
      - test: s1
      - test: s0
s4:
  test.succeed_with_changes:
    - failhard: True
s5:
  test.fail_with_changes:
    - failhard: True
s6:
  test.succeed_without_changes:
    - watch:
      - test: s2
