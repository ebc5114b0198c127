s0:
  test.fail_without_changes: []
s1:
  test.succeed_with_changes:
    - listen:
      - test: s0
s2:
  test.fail_with_changes:
    - watch:
      - test: s0
    - onfail:
      - test: s1
s3:
  test.fail_without_changes:
    - onfail_any:
      - test: s1
      - test: s2
    - require:
      - test: s2
      - test: s1
      - test: s0
s4:
  test.fail_without_changes:
    - watch:
      - test: s2
    - require:
      - test: s0
      - test: s3
      - test: s2
s5:
  test.succeed_with_changes: []
s6:
  test.succeed_without_changes:
    - onchanges:
      - test: s1
      - test: s2
      - test: s4
