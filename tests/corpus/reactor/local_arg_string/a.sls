x:
  local.cmd.run:
    - tgt: m1
    - arg: id
