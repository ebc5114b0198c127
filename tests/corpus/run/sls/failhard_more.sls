a:
  test.succeed_with_changes: []
b:
  test.fail_without_changes:
    - failhard: True
c:
  test.nop: []
l:
  test.nop:
    - order: 1
    - listen:
      - test: a
