a:
  test.succeed_with_changes:
    - listen_in:
      - test: l
l:
  test.succeed_without_changes: []
z:
  test.succeed_without_changes: []
