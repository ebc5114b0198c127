a:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
b:
  salt.state:
    - tgt: '*'
    - sls: good
