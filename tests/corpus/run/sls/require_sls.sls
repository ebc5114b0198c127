include:
  - run.require
z:
  test.nop:
    - require:
      - sls: run.require
