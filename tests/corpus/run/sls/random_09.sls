s0:
  test.fail_with_changes: []
s1:
  test.succeed_with_changes:
    - onchanges:
      - test: s0
    - watch_any:
      - test: s0
    - onchanges_any:
      - test: s0
s2:
  test.fail_with_changes:
    - onfail:
      - test: s1
    - require:
      - test: s1
s3:
  test.succeed_without_changes:
    - onchanges:
      - test: s0
    - listen:
      - test: s2
