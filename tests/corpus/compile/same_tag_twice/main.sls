a:
  test.nop:
    - names:
      - x:
        - comment: one
      - x
b:
  test.nop: []
