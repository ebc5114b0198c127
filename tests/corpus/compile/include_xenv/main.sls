include:
  - _xenv: other
m:
  test.nop: []
