a:
  test.nop:
    - require:
      - cmd: nginx
nginx:
  test.nop: []
