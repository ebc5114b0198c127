extend:
  o:
    test:
      - comment: x
t:
  test.nop: []
