include:
  - empty
z:
  test.nop:
    - require:
      - sls: empty
