two:
  local.test.ping:
    - tgt: m1
