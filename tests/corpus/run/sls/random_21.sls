s0:
  test.nop: []
s1:
  test.succeed_with_changes:
    - onfail_all:
      - test: s0
    - onfail_any:
      - test: s0
s2:
  test.succeed_with_changes:
    - onchanges_any:
      - test: s1
s3:
  test.fail_with_changes:
    - onchanges:
      - test: s0
      - test: s2
    - onfail:
      - test: s0
      - test: s1
s4:
  test.succeed_with_changes:
    - require:
      - test: s1
      - test: s2
    - onchanges:
      - test: s0
s5:
  test.succeed_with_changes:
    - require:
      - test: s3
      - test: s2
      - test: s4
    - onchanges:
      - test: s1
      - test: s2
      - test: s0
    - onchanges_any:
      - test: s3
s6:
  test.succeed_without_changes:
    - onfail_any:
      - test: s3
    - require:
      - test: s0
s7:
  test.nop:
    - onfail_all:
      - test: s4
      - test: s3
    - require:
      - test: s4
      - test: s1
    - order: 5
