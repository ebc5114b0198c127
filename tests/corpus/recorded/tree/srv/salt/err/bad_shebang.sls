#!nosuchrenderer
a:
  test.nop: []
