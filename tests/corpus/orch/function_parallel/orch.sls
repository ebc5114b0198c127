a:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['sleep 0.5']
    - parallel: True
b:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['sleep 0.5']
    - parallel: True
c:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - require: [a, b]
