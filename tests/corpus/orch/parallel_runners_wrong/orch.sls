p:
  salt.parallel_runners:
    - runners: [a, b]
