a:
  salt.wait_for_event:
    - name: my/never
    - id_list: [m1]
    - timeout: 0.2
    - failhard: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
