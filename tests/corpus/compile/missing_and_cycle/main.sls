a:
  test.nop:
    - require:
      - test: b
b:
  test.nop:
    - require:
      - test: a
c:
  test.nop:
    - require:
      - test: zzz
    - watch:
      - test: yyy
