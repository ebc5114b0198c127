a:
  test.nop: []
a:
  test.succeed_with_changes: []
