a:
  test.nop: []
b:
  test.nop:
    - onfail:
      - test: a
    - onfail_any:
      - test: a
    - onfail_all:
      - test: a
    - onchanges:
      - test: c
c:
  test.nop:
    - order: 20000
