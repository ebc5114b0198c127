p:
  test.nop:
    - prereq:
      - test: p
