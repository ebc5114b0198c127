a:
  test.succeed_with_changes:
    - fire_event: True
b:
  test.succeed_with_changes:
    - fire_event: custom/tag/b
