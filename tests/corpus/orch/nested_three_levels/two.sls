c:
  salt.runner:
    - name: state.orchestrate
    - mods: three
d:
  salt.state:
    - tgt: '*'
    - sls: good
