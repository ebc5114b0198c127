a1:
  test.fail_without_changes: []
a2:
  test.fail_without_changes: []
b:
  test.nop:
    - require_any:
      - test: a1
      - test: a2
