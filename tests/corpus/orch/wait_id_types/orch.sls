a:
  salt.runner:
    - name: event.send
    - tag: my/ids
    - data: {id: '1'}
b:
  salt.wait_for_event:
    - name: my/ids
    - id_list: [1]
    - timeout: 0.3
