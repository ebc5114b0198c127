a:
  salt.runner:
    - name: event.send
    - tag: my/ready
    - data: {id: m1}
b:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [m1]
    - timeout: 5
    - require: [{salt: a}]
