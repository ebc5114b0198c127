a:
  test.nop:
    - name: x
b:
  test.nop:
    - require_in:
      - test: x
