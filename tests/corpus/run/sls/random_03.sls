s0:
  test.fail_with_changes: []
s1:
  test.nop: []
s2:
  test.succeed_with_changes:
    - prereq:
      - test: s1
      - test: s0
s3:
  test.fail_without_changes:
    - onfail:
      - test: s0
      - test: s2
    - onchanges_any:
      - test: s1
    - require_any:
      - test: s0
      - test: s2
s4:
  test.succeed_with_changes: []
