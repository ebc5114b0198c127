one:
  local.test.ping:
    - tgt: [m1
