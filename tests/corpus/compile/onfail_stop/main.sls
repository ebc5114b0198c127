a:
  test.fail_without_changes: []
b:
  test.nop:
    - onfail:
      - test: a
    - onfail_stop: False
