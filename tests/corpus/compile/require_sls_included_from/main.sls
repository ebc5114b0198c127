include:
  - mid
z:
  test.nop:
    - order: 1
    - require:
      - sls: mid
