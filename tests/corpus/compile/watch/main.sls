w:
  test.nop:
    - watch:
      - test: a
a:
  test.succeed_with_changes: []
