include:
  - run.require
exclude:
  - id: b
x:
  test.nop: []
