x:
  local.cmd.run:
    - tgt: '*'
    - ret: syslog
    - args:
        cmd: echo hi
        cwd: /tmp
