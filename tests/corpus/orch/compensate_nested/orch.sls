outer:
  test.succeed_with_changes:
    - compensate: undo_outer
inner:
  salt.runner:
    - name: state.orchestrate
    - kwarg: {mods: inner}
undo_outer:
  test.succeed_with_changes: []
