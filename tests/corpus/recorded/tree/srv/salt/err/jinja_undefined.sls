a:
  test.nop: []
b:
  test.nop:
    - name: {{ nosuchvar.attr }}
