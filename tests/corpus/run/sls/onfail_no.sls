a:
  test.succeed_without_changes: []
b:
  test.succeed_with_changes:
    - onfail:
      - test: a
c:
  test.nop:
    - require:
      - test: b
