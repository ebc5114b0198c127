b:
  salt.wait_for_event:
    - name: my/once
    - id_list: [x]
    - timeout: 5
    - parallel: True
c:
  salt.wait_for_event:
    - name: 'my/*'
    - id_list: [x]
    - timeout: 5
    - parallel: True
pause:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['sleep 0.2']
a:
  salt.runner:
    - name: event.send
    - tag: my/once
    - data: {id: x}
