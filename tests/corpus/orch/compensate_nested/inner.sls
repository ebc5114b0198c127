in:
  test.succeed_with_changes:
    - compensate: undo_in
bad:
  test.fail_without_changes: []
undo_in:
  test.succeed_with_changes: []
