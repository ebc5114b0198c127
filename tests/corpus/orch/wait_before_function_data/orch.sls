a:
  salt.function:
    - name: event.send
    - tgt: '*'
    - arg: [my/ready, {name: db, id: 7}]
b:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [db]
    - timeout: 5
    - event_id: name
c:
  salt.wait_for_event:
    - name: my/*
    - id_list: [7]
    - timeout: 5
