a:
  salt.runner:
    - name: salt.cmd
    - arg: [test.ping]
b:
  salt.runner:
    - name: salt.execute
    - arg: ['*', test.ping]
c:
  salt.runner:
    - name: salt.cmd
    - arg: [test.arg]
    - x: 1
