deploy:
  runner.jobs.list_job:
    - jid: 1
    - nonsense: 2
