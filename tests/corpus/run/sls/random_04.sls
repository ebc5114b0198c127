s0:
  test.succeed_with_changes: []
s1:
  test.nop:
    - failhard: True
s2:
  test.nop:
    - require_any:
      - test: s0
    - watch_any:
      - test: s0
      - test: s1
s3:
  test.nop:
    - onfail:
      - test: s2
      - test: s1
    - onfail_all:
      - test: s2
      - test: s1
s4:
  test.nop: []
