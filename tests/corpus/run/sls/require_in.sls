a:
  test.succeed_without_changes: []
b:
  test.nop:
    - require_in:
      - test: a
