a:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
b:
  salt.function:
    - name: test.false
    - tgt: '*'
