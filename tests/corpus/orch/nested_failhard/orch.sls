a:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
    - failhard: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
