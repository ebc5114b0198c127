a:
  salt.wait_for_event:
    - name: my/never
    - id_list: [m1]
    - timeout: 0.4
    - parallel: True
b:
  salt.wait_for_event:
    - name: my/never
    - id_list: [m1]
    - timeout: 0.4
    - parallel: True
