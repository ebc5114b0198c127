p:
  test.nop:
    - prereq:
      - test: a
a:
  test.nop:
    - require_in:
      - test: p
