a:
  salt.runner:
    - name: state.orchestrate
    - mods: one
    - parallel: True
b:
  salt.runner:
    - name: state.orchestrate
    - mods: two
    - parallel: True
