b:
  test.succeed_without_changes:
    - require:
      - test: a
a:
  test.succeed_without_changes: []
