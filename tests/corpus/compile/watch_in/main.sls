a:
  test.nop:
    - watch_in:
      - test: w
w:
  test.nop: []
