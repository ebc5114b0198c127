s0:
  test.fail_with_changes: []
s1:
  test.nop:
    - onfail:
      - test: s0
s2:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s0
    - order: 1
s3:
  test.succeed_without_changes:
    - onchanges_any:
      - test: s1
      - test: s0
      - test: s2
s4:
  test.fail_without_changes:
    - onfail:
      - test: s3
      - test: s1
      - test: s2
    - watch:
      - test: s2
      - test: s0
      - test: s1
s5:
  test.succeed_without_changes:
    - watch:
      - test: s0
    - order: 3
s6:
  test.nop:
    - watch_any:
      - test: s5
      - test: s1
      - test: s0
    - onfail_any:
      - test: s5
      - test: s1
      - test: s2
