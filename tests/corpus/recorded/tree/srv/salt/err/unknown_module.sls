a:
  nosuch.thing: []
b:
  test.nop: []
