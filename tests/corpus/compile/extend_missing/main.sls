extend:
  nosuch:
    test:
      - comment: x
nosuchh:
  test.nop: []
