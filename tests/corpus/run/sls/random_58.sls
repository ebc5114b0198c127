s0:
  test.fail_with_changes:
    - failhard: True
s1:
  test.fail_with_changes:
    - require_any:
      - test: s0
    - onfail:
      - test: s0
    - failhard: True
s2:
  test.fail_without_changes:
    - watch:
      - test: s0
s3:
  test.fail_with_changes:
    - onfail_any:
      - test: s0
    - onchanges_any:
      - test: s1
      - test: s2
s4:
  test.succeed_with_changes:
    - onfail:
      - test: s0
      - test: s3
    - watch_any:
      - test: s1
      - test: s0
      - test: s3
