include:
  - other
  - third
exclude:
  - sls: third
m:
  test.nop: []
