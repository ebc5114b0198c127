a:
  salt.runner:
    - name: event.send
    - tag: my/once
    - data: {id: x}
pause:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['sleep 0.1']
b:
  salt.runner:
    - name: state.orchestrate
    - mods: inner
