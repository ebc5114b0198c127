s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.succeed_without_changes:
    - onchanges_any:
      - test: s1
s3:
  test.succeed_with_changes:
    - onfail:
      - test: s1
      - test: s2
      - test: s0
    - watch:
      - test: s0
      - test: s1
s4:
  test.succeed_without_changes:
    - require:
      - test: s0
s5:
  test.succeed_with_changes:
    - require:
      - test: s0
    - require_any:
      - test: s4
      - test: s0
    - onfail_all:
      - test: s4
    - failhard: True
