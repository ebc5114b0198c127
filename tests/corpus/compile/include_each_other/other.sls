include:
  - main
o:
  test.nop: []
