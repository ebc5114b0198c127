s0:
  test.succeed_without_changes: []
s1:
  test.nop:
    - onfail_any:
      - test: s0
s2:
  test.succeed_with_changes:
    - listen:
      - test: s0
    - onchanges_any:
      - test: s1
      - test: s0
    - require:
      - test: s1
      - test: s0
s3:
  test.fail_without_changes:
    - onfail:
      - test: s0
      - test: s2
    - onchanges:
      - test: s2
      - test: s1
