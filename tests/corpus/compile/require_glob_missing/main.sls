a1:
  test.nop: []
b:
  test.nop:
    - require:
      - test: z*
