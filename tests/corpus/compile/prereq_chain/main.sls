p:
  test.nop:
    - prereq:
      - test: q
q:
  test.nop:
    - prereq:
      - test: r
r:
  test.nop:
    - require:
      - test: s
s:
  test.nop: []
