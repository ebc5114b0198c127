a:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: one two
