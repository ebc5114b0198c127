state:
  salt.state:
    - tgt: 'web1,down'
    - tgt_type: list
    - ssh: True
    - sls: good
function:
  salt.function:
    - name: test.ping
    - tgt: down
    - ssh: True
