a:
  test.nop:
  - x: y: z
