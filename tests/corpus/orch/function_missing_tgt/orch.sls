a:
  salt.function:
    - name: test.ping
