a:
  test.nop: []
b:
  test.nop: []
c:
  test.nop:
    - require_in:
      - test: a
      - test: b
d:
  test.nop:
    - require_in:
      - test: a
