c:
  salt.wait_for_event:
    - name: my/once
    - id_list: [x]
    - timeout: 0.3
