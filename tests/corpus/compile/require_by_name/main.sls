a:
  test.nop:
    - name: real_name
b:
  test.nop:
    - order: 1
    - require:
      - test: real_name
      - id: real_name
