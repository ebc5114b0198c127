checked:
  test.nop:
    - require_in:
      - archive: app

app:
  test.nop: []
