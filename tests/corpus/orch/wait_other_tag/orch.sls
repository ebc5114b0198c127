a:
  salt.runner:
    - name: event.send
    - tag: my/other
    - data: {id: x}
b:
  salt.wait_for_event:
    - name: my/wanted
    - id_list: [x]
    - timeout: 0.3
