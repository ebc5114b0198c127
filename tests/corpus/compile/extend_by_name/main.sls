include:
  - other
extend:
  real:
    test:
      - comment: new
m:
  test.nop: []
