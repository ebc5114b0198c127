o:
  test.nop:
    - name: real
