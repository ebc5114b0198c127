x:
  local.cmd.run:
    - tgt: '*'
    - args:
      - cmd: echo hi
    - arg:
      - echo other
