s0:
  test.nop: []
s1:
  test.fail_with_changes:
    - onchanges:
      - test: s0
    - require:
      - test: s0
    - onfail:
      - test: s0
s2:
  test.nop:
    - watch_any:
      - test: s1
s3:
  test.succeed_without_changes:
    - require:
      - test: s1
      - test: s2
      - test: s0
    - listen:
      - test: s1
      - test: s0
      - test: s2
s4:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s2
      - test: s0
      - test: s1
s5:
  test.succeed_with_changes: []
