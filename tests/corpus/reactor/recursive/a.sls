x:
  local.test.ping:
    - tgt: m1
    - require:
      - local: y
y:
  local.test.ping:
    - tgt: m1
    - require:
      - local: x
