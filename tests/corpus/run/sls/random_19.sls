s0:
  test.succeed_with_changes: []
s1:
  test.nop:
    - watch:
      - test: s0
s2:
  test.fail_with_changes:
    - watch:
      - test: s0
      - test: s1
s3:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s1
    - onchanges:
      - test: s1
      - test: s0
    - onfail:
      - test: s2
s4:
  test.succeed_without_changes:
    - onchanges_any:
      - test: s1
    - onfail_any:
      - test: s0
      - test: s3
      - test: s2
    - listen:
      - test: s2
      - test: s3
