include:
  - err.dup_id_x
a:
  test.succeed_with_changes: []
