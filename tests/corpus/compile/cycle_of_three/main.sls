x:
  test.nop: []
a:
  test.nop:
    - name: an
    - require:
      - test: b
b:
  test.nop:
    - watch:
      - test: c
c:
  cmd.run:
    - onchanges:
      - test: a
