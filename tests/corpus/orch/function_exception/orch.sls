a:
  salt.function:
    - name: test.exception
    - tgt: '*'
    - arg: [boom]
