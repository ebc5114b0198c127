a:
  salt.runner:
    - name: event.send
    - tag: my/once
    - data: {id: x}
b:
  salt.wait_for_event:
    - name: my/once
    - id_list: [x]
    - timeout: 5
c:
  salt.wait_for_event:
    - name: my/once
    - id_list: [x]
    - timeout: 0.3
