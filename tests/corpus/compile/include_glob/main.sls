include:
  - parts.*
m:
  test.nop: []
