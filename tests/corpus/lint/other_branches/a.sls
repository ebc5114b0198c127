a:
  test.nop:
    - require:
      - sls: b
      - file: /etc/b*
