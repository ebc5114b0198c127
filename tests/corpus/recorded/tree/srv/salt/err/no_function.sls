a:
  test: []
