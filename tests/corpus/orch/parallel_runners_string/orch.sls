p:
  salt.parallel_runners:
    - runners: manage.up
