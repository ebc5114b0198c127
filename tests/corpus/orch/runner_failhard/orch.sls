a:
  salt.runner:
    - name: test.nosuch
    - failhard: True
b:
  salt.runner:
    - name: test.arg
    - arg: [1]
