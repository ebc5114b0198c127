a:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
b:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
    - require: [{salt: a}]
