s0:
  test.nop: []
s1:
  test.succeed_without_changes:
    - require_any:
      - test: s0
    - onchanges:
      - test: s0
s2:
  test.nop:
    - require_any:
      - test: s1
    - watch:
      - test: s1
      - test: s0
s3:
  test.succeed_with_changes: []
s4:
  test.succeed_without_changes:
    - require_any:
      - test: s3
      - test: s0
s5:
  test.succeed_without_changes:
    - require_any:
      - test: s2
      - test: s4
      - test: s1
    - onchanges:
      - test: s1
      - test: s0
      - test: s4
    - order: 3
s6:
  test.succeed_with_changes:
    - watch:
      - test: s0
      - test: s4
      - test: s3
    - onfail:
      - test: s1
