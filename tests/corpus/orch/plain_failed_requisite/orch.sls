c:
  test.succeed_with_changes:
    - require: [{test: b}]
b:
  test.succeed_with_changes:
    - require: [{test: a}]
a:
  test.fail_without_changes: []
