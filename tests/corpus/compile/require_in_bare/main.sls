a:
  test.nop: []
b:
  test.nop:
    - require_in:
      - a
c:
  test.nop:
    - name: x
d:
  test.nop:
    - require_in:
      - x
      - nothing_like_it
