par:
  salt.parallel_runners:
    - runners:
        one:
          - name: test.arg
          - arg: [a]
        two:
          - name: test.arg
          - arg: [b]
