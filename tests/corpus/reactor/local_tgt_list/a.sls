x:
  local.test.ping:
    - tgt: [m1, m2]
    - tgt_type: list
