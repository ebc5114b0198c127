p:
  test.nop:
    - prereq:
      - test: r
q:
  test.nop:
    - prereq:
      - test: r
r:
  test.nop:
    - onchanges:
      - test: s
s:
  test.nop: []
