a:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [m1]
    - timeout: 5
    - unless: 'true'
b:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [m1]
    - timeout: 5
    - onlyif: 'false'
