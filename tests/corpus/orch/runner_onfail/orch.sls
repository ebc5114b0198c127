a:
  salt.runner:
    - name: test.nosuch
b:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - onfail: [a]
c:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - onfail: [b]
