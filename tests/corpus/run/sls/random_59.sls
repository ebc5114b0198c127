s0:
  test.fail_with_changes: []
s1:
  test.nop:
    - watch:
      - test: s0
    - listen:
      - test: s0
s2:
  test.succeed_without_changes: []
s3:
  test.succeed_with_changes: []
