s0:
  test.succeed_without_changes: []
s1:
  test.succeed_with_changes:
    - require:
      - test: s0
s2:
  test.nop:
    - onchanges:
      - test: s0
      - test: s1
    - onfail:
      - test: s0
      - test: s1
