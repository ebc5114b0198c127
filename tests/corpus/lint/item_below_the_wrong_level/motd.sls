motd:
  test.nop:
    - require:
      - sls:
      - base
