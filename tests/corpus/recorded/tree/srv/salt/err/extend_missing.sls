extend:
  nosuch:
    test.nop:
      - name: x
a:
  test.nop: []
