s0:
  test.fail_without_changes:
    - order: 1
s1:
  test.fail_without_changes:
    - watch:
      - test: s0
    - require:
      - test: s0
s2:
  test.fail_without_changes:
    - onchanges_any:
      - test: s0
      - test: s1
    - onchanges:
      - test: s0
      - test: s1
s3:
  test.fail_with_changes:
    - onchanges:
      - test: s2
      - test: s1
    - onfail_all:
      - test: s0
      - test: s2
      - test: s1
    - require_any:
      - test: s1
s4:
  test.fail_with_changes: []
s5:
  test.fail_with_changes:
    - onfail:
      - test: s0
s6:
  test.succeed_with_changes:
    - onfail:
      - test: s4
      - test: s1
