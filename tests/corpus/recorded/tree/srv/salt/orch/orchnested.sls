n:
  salt.runner:
    - name: state.orchestrate
    - mods: orch.good
