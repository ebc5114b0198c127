a:
  salt.runner:
    - name: test.arg
    - arg: [1, x]
    - kwarg: {k: v}
b:
  salt.runner:
    - name: test.arg
    - x: 1
    - y: [2]
