o:
  test.nop:
    - names:
      - a
      - b
