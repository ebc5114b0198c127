s0:
  test.succeed_with_changes:
    - failhard: True
s1:
  test.nop:
    - onchanges:
      - test: s0
    - require_any:
      - test: s0
s2:
  test.fail_with_changes:
    - onfail:
      - test: s1
