a:
  test.nop:
    - require:
      - test: b
b:
  test.nop: []
exclude:
  - id: b
