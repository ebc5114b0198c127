deploy:
  runner.test.arg:
    - arg:
      - one
