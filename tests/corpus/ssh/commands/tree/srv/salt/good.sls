changed:
  test.succeed_with_changes
same:
  test.succeed_without_changes:
    - require: [{test: changed}]
