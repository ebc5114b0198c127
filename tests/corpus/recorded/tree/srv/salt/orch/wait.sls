w:
  salt.wait_for_event:
    - name: my/custom/event
    - id_list: [m1]
    - timeout: 2
