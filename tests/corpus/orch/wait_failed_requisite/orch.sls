a:
  salt.state:
    - tgt: '*'
    - sls: bad
b:
  salt.wait_for_event:
    - name: my/ready
    - id_list: [m1]
    - timeout: 5
    - require: [{salt: a}]
