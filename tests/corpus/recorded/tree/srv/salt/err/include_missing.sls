include:
  - nosuch.sls.here
a:
  test.nop: []
