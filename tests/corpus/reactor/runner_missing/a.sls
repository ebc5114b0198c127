deploy:
  runner.nothing.here:
    - a: 1
