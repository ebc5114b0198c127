a:
  salt.runner:
    - name: event.send
    - tag: my/part
    - data: {id: x}
b:
  salt.wait_for_event:
    - name: my/part
    - id_list: [x, y]
    - timeout: 0.3
