a:
  salt.runner:
    - name: mine.get
    - arg: ['*', test.ping]
b:
  salt.runner:
    - name: mine.get
    - arg: ['*', nosuch]
