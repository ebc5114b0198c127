s0:
  test.succeed_with_changes: []
s1:
  test.succeed_without_changes:
    - onfail:
      - test: s0
s2:
  test.nop:
    - watch_any:
      - test: s0
      - test: s1
    - require:
      - test: s0
      - test: s1
    - failhard: True
s3:
  test.succeed_with_changes:
    - onfail:
      - test: s0
      - test: s2
      - test: s1
    - onchanges_any:
      - test: s2
s4:
  test.fail_with_changes:
    - watch:
      - test: s1
      - test: s3
      - test: s2
    - failhard: True
