include:
  - req.require
exclude:
  - id: b
x:
  test.nop: []
