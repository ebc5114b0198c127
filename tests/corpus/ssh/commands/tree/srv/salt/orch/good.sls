ping:
  salt.function:
    - name: test.ping
    - tgt: 'web*'
    - ssh: True
deploy:
  salt.state:
    - tgt: 'web*'
    - ssh: True
    - sls: good
    - require: [{salt: ping}]
