a:
  test.succeed_with_changes:
    - onchanges_in:
      - test: b
b:
  test.succeed_with_changes: []
