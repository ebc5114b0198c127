a1:
  test.fail_without_changes: []
a2:
  test.fail_without_changes: []
b:
  test.succeed_with_changes:
    - onfail_all:
      - test: a1
      - test: a2
