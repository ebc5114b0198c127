a:
  salt.wait_for_event:
    - name: my/late
    - id_list: [x, y]
    - timeout: 5
    - parallel: True
b:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['sleep 0.3']
c:
  salt.runner:
    - name: event.send
    - tag: my/late
    - data: {id: x}
d:
  salt.runner:
    - name: event.send
    - tag: my/late
    - data: {id: y}
