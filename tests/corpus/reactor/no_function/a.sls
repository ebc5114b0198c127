x:
  local:
    - tgt: m1
