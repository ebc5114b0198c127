a:
  salt.function:
    - name: state.orchestrate
    - tgt: '*'
    - arg: [inner]
b:
  salt.function:
    - name: state.orchestrate
    - tgt: '*'
    - kwarg: {mods: broken}
