s0:
  test.nop: []
s1:
  test.fail_with_changes:
    - watch:
      - test: s0
    - failhard: True
s2:
  test.fail_without_changes:
    - onfail:
      - test: s1
      - test: s0
    - require:
      - test: s1
      - test: s0
s3:
  test.succeed_without_changes:
    - listen:
      - test: s1
      - test: s0
      - test: s2
    - onfail:
      - test: s2
      - test: s0
s4:
  test.succeed_with_changes:
    - require:
      - test: s1
      - test: s3
      - test: s0
s5:
  test.succeed_with_changes:
    - onchanges:
      - test: s1
