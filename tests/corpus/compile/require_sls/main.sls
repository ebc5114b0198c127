include:
  - other
z:
  test.nop:
    - order: 1
    - require:
      - sls: other
