a1:
  test.succeed_without_changes: []
a2:
  test.fail_without_changes: []
b:
  test.succeed_with_changes:
    - onfail_any:
      - test: a1
      - test: a2
