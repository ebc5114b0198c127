a:
  salt.state:
    - tgt: '*'
    - sls: good
b:
  salt.wait_for_event:
    - name: 'salt/job/*/ret/*'
    - id_list: [m1]
    - timeout: 5
