b:
  salt.runner:
    - name: state.orchestrate
    - mods: two
