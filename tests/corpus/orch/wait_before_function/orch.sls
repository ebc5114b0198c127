a:
  salt.function:
    - name: event.send
    - tgt: '*'
    - arg: [my/ready, {name: db}]
b:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [m1]
    - timeout: 5
