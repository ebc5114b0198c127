motd:
  test.nop: []
