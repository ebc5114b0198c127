include:
  - app.config
made:
  test.nop: []
