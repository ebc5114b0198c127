c:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - require: [{salt: b}]
b:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - require: [{salt: a}]
a:
  salt.runner:
    - name: test.nosuch
