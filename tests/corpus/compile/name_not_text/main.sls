a:
  test.nop:
    - name: 5
