{{ nosuch.key }}:
  test.nop
