clean_tmp:
  cmd.cmd.run:
    - tgt: 'G@os:Debian and m*'
    - tgt_type: compound
    - arg:
      - rm -rf /tmp/x
    - kwarg:
        cwd: /
        python_shell: true
