x:
  local.test.ping:
    - tgt: m1
    - require:
      - wheel: nobody
