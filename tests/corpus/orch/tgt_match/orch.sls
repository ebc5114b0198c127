a:
  salt.state:
    - tgt: 'nosuch*'
    - sls: good
b:
  salt.function:
    - name: test.ping
    - tgt: 'nosuch*'
