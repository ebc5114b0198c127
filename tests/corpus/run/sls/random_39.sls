s0:
  test.fail_without_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.nop:
    - onchanges_any:
      - test: s1
s3:
  test.succeed_with_changes:
    - onfail:
      - test: s2
      - test: s1
      - test: s0
s4:
  test.nop: []
s5:
  test.succeed_with_changes:
    - onfail:
      - test: s3
      - test: s0
      - test: s1
    - require:
      - test: s4
      - test: s1
