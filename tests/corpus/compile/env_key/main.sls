a:
  test.nop:
    - fun: other
    - state: other
    - arg: {a: [1, 2]}
