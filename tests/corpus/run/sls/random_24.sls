s0:
  test.succeed_without_changes: []
s1:
  test.succeed_with_changes:
    - onfail:
      - test: s0
    - require_any:
      - test: s0
s2:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s0
    - onfail_all:
      - test: s1
