s0:
  test.succeed_with_changes:
    - failhard: True
    - order: 2
s1:
  test.succeed_with_changes:
    - onfail:
      - test: s0
s2:
  test.succeed_with_changes: []
