a:
  salt.function:
    - name: test.false
    - tgt: '*'
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
