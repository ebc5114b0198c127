s0:
  test.fail_with_changes: []
s1:
  test.succeed_with_changes:
    - onchanges:
      - test: s0
    - watch:
      - test: s0
    - listen:
      - test: s0
s2:
  test.succeed_with_changes:
    - require_any:
      - test: s0
      - test: s1
    - onfail:
      - test: s0
