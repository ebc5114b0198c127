s0:
  test.nop: []
s1:
  test.succeed_with_changes: []
s2:
  test.succeed_with_changes:
    - require:
      - test: s1
      - test: s0
    - watch:
      - test: s1
s3:
  test.fail_without_changes:
    - prereq:
      - test: s0
s4:
  test.fail_without_changes:
    - onfail_any:
      - test: s1
      - test: s3
      - test: s0
s5:
  test.succeed_without_changes:
    - onfail:
      - test: s3
      - test: s2
    - require:
      - test: s4
    - require_any:
      - test: s2
