a:
  salt.runner:
    - name: state.orchestrate
    - mods: one
