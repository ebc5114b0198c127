z:
  test.nop:
    - require:
      - sls: nothing*
