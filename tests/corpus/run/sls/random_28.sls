s0:
  test.fail_without_changes: []
s1:
  test.nop:
    - listen:
      - test: s0
    - onfail_any:
      - test: s0
s2:
  test.succeed_with_changes: []
s3:
  test.fail_without_changes:
    - onfail_any:
      - test: s2
    - require:
      - test: s0
      - test: s1
    - order: 4
