s0:
  test.succeed_with_changes: []
s1:
  test.nop:
    - onfail:
      - test: s0
    - order: 5
s2:
  test.nop:
    - listen:
      - test: s1
s3:
  test.fail_without_changes:
    - onchanges_any:
      - test: s1
      - test: s0
      - test: s2
    - require_any:
      - test: s1
s4:
  test.succeed_without_changes:
    - onchanges:
      - test: s3
      - test: s2
