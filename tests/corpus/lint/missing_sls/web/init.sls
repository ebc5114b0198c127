include:
  - .config
  - comon

web:
  test.nop: []
