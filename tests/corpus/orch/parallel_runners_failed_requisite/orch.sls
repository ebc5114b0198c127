a:
  salt.state:
    - tgt: '*'
    - sls: bad
p:
  salt.parallel_runners:
    - runners:
        one:
          - name: test.arg
          - kwarg: {a: 1}
        two:
          - name: test.arg
          - kwarg: {b: 2}
    - require: [{salt: a}]
