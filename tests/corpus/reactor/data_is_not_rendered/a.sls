one:
  local.cmd.run:
    - tgt: m1
    - args:
      - cmd: {{ data.x | yaml_encode }}
