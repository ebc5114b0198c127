c:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - require: [{salt: b}]
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - require: [{salt: a}]
a:
  salt.function:
    - name: test.false
    - tgt: '*'
