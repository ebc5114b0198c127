restart:
  salt.function:
    - name: service.restart
    - tgt: some-other-minion
    - arg:
      - nginx

here:
  salt.function:
    - name: test.ping
    - tgt: '*'
