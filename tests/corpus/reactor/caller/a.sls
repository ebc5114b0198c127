x:
  caller.test.ping: []
