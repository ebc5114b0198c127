s0:
  test.succeed_without_changes: []
s1:
  test.fail_with_changes:
    - onchanges:
      - test: s0
    - watch:
      - test: s0
s2:
  test.fail_without_changes:
    - onfail:
      - test: s1
s3:
  test.fail_without_changes:
    - require:
      - test: s0
      - test: s2
s4:
  test.fail_with_changes: []
s5:
  test.succeed_without_changes:
    - require:
      - test: s2
s6:
  test.succeed_with_changes: []
s7:
  test.succeed_without_changes:
    - onfail:
      - test: s5
    - require:
      - test: s0
      - test: s2
    - onchanges:
      - test: s1
      - test: s0
      - test: s5
