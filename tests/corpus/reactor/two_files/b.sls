both:
  local.test.ping:
    - tgt: of-b
two:
  local.test.ping:
    - tgt: m1
    - require:
      - local: one
