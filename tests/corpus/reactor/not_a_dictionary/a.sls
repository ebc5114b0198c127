one:
  - local.test.ping
