include:
  - other
exclude:
  - ot*
m:
  test.nop: []
