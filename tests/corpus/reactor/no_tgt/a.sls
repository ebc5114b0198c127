x:
  local.test.ping: []
