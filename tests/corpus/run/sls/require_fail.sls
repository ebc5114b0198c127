b:
  test.succeed_without_changes:
    - require:
      - test: a
c:
  test.nop:
    - require:
      - test: b
a:
  test.fail_without_changes: []
