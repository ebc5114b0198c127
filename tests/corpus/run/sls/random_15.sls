s0:
  test.nop: []
s1:
  test.nop:
    - prereq:
      - test: s0
    - failhard: True
    - order: 3
s2:
  test.fail_without_changes:
    - require_any:
      - test: s1
s3:
  test.fail_without_changes:
    - onfail_all:
      - test: s0
      - test: s2
    - onchanges_any:
      - test: s0
      - test: s2
    - onchanges:
      - test: s2
