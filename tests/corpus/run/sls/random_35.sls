s0:
  test.fail_with_changes: []
s1:
  test.succeed_with_changes:
    - watch:
      - test: s0
    - watch_any:
      - test: s0
s2:
  test.fail_without_changes:
    - require_any:
      - test: s0
      - test: s1
    - require:
      - test: s0
      - test: s1
s3:
  test.succeed_with_changes: []
s4:
  test.succeed_with_changes: []
s5:
  test.nop:
    - onfail:
      - test: s0
    - listen:
      - test: s4
      - test: s1
