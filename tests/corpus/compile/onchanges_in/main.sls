a:
  test.nop:
    - onchanges_in:
      - test: b
    - onfail_in:
      - test: b
b:
  test.nop: []
