s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.succeed_with_changes: []
s3:
  test.nop:
    - onchanges_any:
      - test: s1
      - test: s2
      - test: s0
    - watch:
      - test: s0
      - test: s1
      - test: s2
s4:
  test.succeed_without_changes:
    - onfail:
      - test: s2
      - test: s3
      - test: s0
    - require_any:
      - test: s1
      - test: s2
s5:
  test.succeed_with_changes: []
s6:
  test.nop:
    - onfail_all:
      - test: s3
      - test: s4
      - test: s0
    - onfail:
      - test: s5
