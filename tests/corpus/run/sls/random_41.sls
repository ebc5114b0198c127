s0:
  test.fail_without_changes: []
s1:
  test.succeed_with_changes:
    - watch_any:
      - test: s0
    - onchanges:
      - test: s0
s2:
  test.fail_with_changes:
    - onfail_any:
      - test: s1
s3:
  test.succeed_with_changes:
    - watch_any:
      - test: s0
      - test: s1
    - onchanges_any:
      - test: s0
      - test: s2
s4:
  test.succeed_without_changes: []
s5:
  test.succeed_with_changes: []
