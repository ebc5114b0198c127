a:
  test.fail_without_changes:
    - onfail_in:
      - test: b
b:
  test.succeed_with_changes: []
