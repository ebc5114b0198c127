s0:
  test.nop: []
s1:
  test.succeed_with_changes:
    - watch:
      - test: s0
    - require_any:
      - test: s0
s2:
  test.fail_without_changes:
    - onfail_all:
      - test: s1
    - require:
      - test: s0
    - onchanges_any:
      - test: s1
      - test: s0
s3:
  test.succeed_with_changes:
    - onfail_all:
      - test: s1
      - test: s2
    - onchanges_any:
      - test: s1
      - test: s2
    - require:
      - test: s2
      - test: s0
      - test: s1
s4:
  test.succeed_with_changes:
    - require_any:
      - test: s2
      - test: s1
    - onfail_any:
      - test: s3
      - test: s0
