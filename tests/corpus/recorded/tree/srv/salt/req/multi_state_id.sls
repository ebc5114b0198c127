a:
  test.nop: []
  cmd.run:
    - name: echo hi
    - stateful: False
