include:
  - other
  - third
exclude:
  - sls: other
  - id: t
  - thi*x
m:
  test.nop: []
