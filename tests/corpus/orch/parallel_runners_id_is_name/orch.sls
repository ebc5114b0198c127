p:
  salt.parallel_runners:
    - runners:
        test.arg:
