include:
  - req.require
z:
  test.nop:
    - require:
      - sls: req.require
