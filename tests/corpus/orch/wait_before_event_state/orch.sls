a:
  event.send:
    - name: my/tag
    - data: {id: 7}
b:
  salt.wait_for_event:
    - name: my/tag
    - id_list: [7]
    - timeout: 5
