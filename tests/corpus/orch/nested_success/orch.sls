a:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
