e:
  salt.function:
    - name: test.ping
    - tgt: '*'
