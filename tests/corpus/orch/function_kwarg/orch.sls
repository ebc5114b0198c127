a:
  salt.function:
    - name: test.kwarg
    - tgt: '*'
    - kwarg: {x: 1, y: [2]}
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1, two]
    - kwarg: {z: 3}
