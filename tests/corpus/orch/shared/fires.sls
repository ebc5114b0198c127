fires:
  test.succeed_with_changes:
    - name: fired
    - fire_event: True
