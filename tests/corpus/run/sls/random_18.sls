s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes:
    - failhard: True
s2:
  test.succeed_with_changes:
    - onfail_all:
      - test: s0
      - test: s1
s3:
  test.succeed_with_changes:
    - require:
      - test: s0
      - test: s1
      - test: s2
    - onchanges:
      - test: s2
      - test: s0
      - test: s1
s4:
  test.nop:
    - require:
      - test: s2
s5:
  test.succeed_without_changes:
    - onchanges:
      - test: s4
      - test: s2
    - watch_any:
      - test: s1
    - watch:
      - test: s4
      - test: s2
      - test: s1
s6:
  test.succeed_with_changes: []
