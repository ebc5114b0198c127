a:
  test:
    - nop this
