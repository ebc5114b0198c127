a:
  test.nop:
    - name: real_name
b:
  test.nop:
    - require:
      - test: real_name
