a:
  salt.state:
    - tgt: '*'
    - sls: bad
b:
  salt.function:
    - name: test.false
    - tgt: '*'
c:
  salt.wheel:
    - name: key.list_all
