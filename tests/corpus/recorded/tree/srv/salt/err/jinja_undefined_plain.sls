b:
  test.nop:
    - name: {{ nosuchvar }}x
