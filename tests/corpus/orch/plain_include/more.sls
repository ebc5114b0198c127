m:
  salt.function:
    - name: test.ping
    - tgt: '*'
