p:
  test.nop:
    - prereq:
      - test: a
a:
  test.nop: []
