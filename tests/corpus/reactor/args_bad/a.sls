x:
  local.cmd.run:
    - tgt: '*'
    - args:
      - echo hi
