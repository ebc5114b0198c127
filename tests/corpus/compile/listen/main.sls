l:
  test.nop:
    - listen:
      - test: a
a:
  test.nop:
    - listen_in:
      - test: l
