s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes:
    - require:
      - test: s0
    - watch:
      - test: s0
s2:
  test.fail_with_changes: []
s3:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s1
s4:
  test.fail_with_changes:
    - onfail_all:
      - test: s0
      - test: s2
      - test: s1
    - order: 3
s5:
  test.succeed_without_changes:
    - onfail:
      - test: s3
      - test: s2
    - require_any:
      - test: s0
      - test: s4
    - onchanges:
      - test: s0
      - test: s3
      - test: s4
    - order: 1
