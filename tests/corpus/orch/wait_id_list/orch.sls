a:
  salt.runner:
    - name: event.send
    - tag: my/ids
    - data: {id: 1}
b:
  salt.runner:
    - name: event.send
    - tag: my/ids
    - data: {id: two}
c:
  salt.runner:
    - name: event.send
    - tag: my/ids
    - data: {id: [3, four, five]}
d:
  salt.wait_for_event:
    - name: my/ids
    - id_list: [1, two, 3, four]
    - timeout: 5
