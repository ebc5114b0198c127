p:
  salt.parallel_runners:
    - runners:
        one:
          - name: test.sleep
          - kwarg: {s_time: 0.4}
    - parallel: True
q:
  salt.parallel_runners:
    - runners:
        one:
          - name: test.sleep
          - kwarg: {s_time: 0.4}
    - parallel: True
