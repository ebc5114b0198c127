a:
  salt.runner:
    - name: test.sleep
    - s_time: 0.5
    - parallel: True
b:
  salt.runner:
    - name: test.sleep
    - s_time: 0.5
    - parallel: True
c:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - require: [a, b]
