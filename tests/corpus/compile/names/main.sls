a:
  test.nop:
    - names:
      - n1
      - n2:
        - comment: over
      - n3
      - n1
    - comment: all
after:
  test.nop:
    - order: 10
    - require:
      - test: a
