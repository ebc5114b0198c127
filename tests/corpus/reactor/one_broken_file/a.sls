one:
  local.test.ping:
    - tgt: {{ nothing.at.all }}
