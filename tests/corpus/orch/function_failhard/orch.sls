a:
  salt.function:
    - name: test.false
    - tgt: '*'
    - failhard: True
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
