a:
  test.nop: []
b:
  test.nop:
    - require_in:
      - test: a
