a:
  test.fail_without_changes: []
b:
  test.succeed_with_changes:
    - onfail: [a]
c:
  test.succeed_with_changes:
    - onfail: [b]
