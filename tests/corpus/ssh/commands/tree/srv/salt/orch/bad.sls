half:
  salt.state:
    - tgt: 'web*'
    - ssh: True
    - sls: half
after:
  salt.function:
    - name: test.ping
    - tgt: web1
    - ssh: True
    - require: [{salt: half}]
