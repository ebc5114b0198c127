s0:
  test.succeed_with_changes: []
s1:
  test.succeed_with_changes: []
s2:
  test.fail_with_changes:
    - watch_any:
      - test: s0
      - test: s1
s3:
  test.nop:
    - listen:
      - test: s0
      - test: s2
      - test: s1
