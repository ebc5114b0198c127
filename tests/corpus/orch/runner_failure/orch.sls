a:
  salt.runner:
    - name: test.nosuch
b:
  salt.runner:
    - name: test.arg
    - arg: [1]
