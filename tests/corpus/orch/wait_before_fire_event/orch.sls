a:
  salt.state:
    - tgt: '*'
    - sls: fires
b:
  salt.wait_for_event:
    - name: 'salt/state_result/*/m1/fired'
    - id_list: [m1]
    - timeout: 5
