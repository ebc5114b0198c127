one:
  local.test.ping:
    - tgt: m1
both:
  local.test.ping:
    - tgt: of-a
