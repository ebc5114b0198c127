a:
  test.nop: []
b:
  cmd.run:
    - name: 'true'
  test.nop: []
