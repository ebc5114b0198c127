a:
  salt.function:
    - name: test.false
    - tgt: '*'
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - onfail: [a]
c:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - onfail: [b]
