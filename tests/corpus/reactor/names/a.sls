x:
  local.test.ping:
    - tgt: m1
    - names:
      - a
      - b
