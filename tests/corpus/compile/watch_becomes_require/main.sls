w:
  file.managed:
    - name: /tmp/x
    - require:
      - test: b
    - watch:
      - test: a
    - watch_any:
      - test: a
a:
  test.nop: []
b:
  test.nop: []
