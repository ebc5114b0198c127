a:
  salt.runner:
    - name: test.arg
    - arg: [1]
b:
  salt.runner:
    - name: test.nosuch
