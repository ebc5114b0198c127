p:
  salt.parallel_runners:
    - runners:
        one:
          - name: test.arg
          - kwarg: {a: 1}
        two:
          - name: test.arg
          - kwarg: {b: 2}
