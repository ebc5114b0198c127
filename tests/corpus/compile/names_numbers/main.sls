a:
  test.nop:
    - names:
      - 1
      - two
