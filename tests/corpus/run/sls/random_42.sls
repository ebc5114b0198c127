s0:
  test.fail_without_changes:
    - failhard: True
s1:
  test.succeed_without_changes:
    - onchanges:
      - test: s0
    - onfail:
      - test: s0
s2:
  test.succeed_with_changes:
    - onfail:
      - test: s0
    - require_any:
      - test: s1
      - test: s0
s3:
  test.succeed_with_changes:
    - watch:
      - test: s0
