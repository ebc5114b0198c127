state:
  salt.state:
    - tgt: 'db*'
    - ssh: True
    - sls: good
function:
  salt.function:
    - name: test.ping
    - tgt: 'db*'
    - ssh: True
