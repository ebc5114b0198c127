include:
  - _xenv: othr
m:
  test.nop: []
