a:
  test.nop: []
p:
  test.nop: []
q:
  test.nop:
    - prereq_in:
      - test: p
