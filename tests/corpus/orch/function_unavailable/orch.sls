a:
  salt.function:
    - name: test.nosuch
    - tgt: '*'
b:
  salt.function:
    - name: nosuch.f
    - tgt: '*'
