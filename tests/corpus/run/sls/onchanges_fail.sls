a:
  test.fail_with_changes: []
b:
  test.succeed_with_changes:
    - onchanges:
      - test: a
