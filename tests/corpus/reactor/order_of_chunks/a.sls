last:
  local.test.ping:
    - tgt: m3
    - order: last
second:
  local.test.ping:
    - tgt: m2
    - require:
      - local: first
first:
  local.test.ping:
    - tgt: m1
