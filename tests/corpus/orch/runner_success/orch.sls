a:
  salt.runner:
    - name: test.arg
    - arg: [1]
