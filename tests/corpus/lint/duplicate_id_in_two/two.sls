motd:
  test.succeed_without_changes: []
