deploy:
  runner.event.send:
    - arg:
      - my/tag
    - kwarg:
        data:
          a: 1
