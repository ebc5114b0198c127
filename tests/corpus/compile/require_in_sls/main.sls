include:
  - other
d:
  test.nop:
    - require_in:
      - sls: other
