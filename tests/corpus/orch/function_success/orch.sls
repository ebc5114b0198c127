a:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
