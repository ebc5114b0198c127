s0:
  test.succeed_without_changes: []
s1:
  test.succeed_without_changes:
    - onchanges:
      - test: s0
    - watch_any:
      - test: s0
s2:
  test.succeed_with_changes: []
s3:
  test.succeed_with_changes:
    - onchanges:
      - test: s1
      - test: s2
s4:
  test.nop:
    - onchanges_any:
      - test: s2
    - watch_any:
      - test: s0
      - test: s2
      - test: s1
    - require:
      - test: s2
      - test: s0
