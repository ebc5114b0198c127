c:
  test.succeed_with_changes: []
f:
  test.fail_with_changes: []
l1:
  test.nop:
    - listen:
      - test: c
      - test: f
l2:
  test.nop:
    - listen:
      - test: f
    - require:
      - test: f
l3:
  test.nop:
    - listen:
      - test: missing
