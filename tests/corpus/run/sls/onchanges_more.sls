n:
  test.nop: []
c:
  test.succeed_with_changes: []
f:
  test.fail_with_changes: []
one_of:
  test.nop:
    - onchanges:
      - test: n
      - test: c
with_failed:
  test.nop:
    - onchanges:
      - test: f
      - test: c
failed_require:
  test.nop:
    - onchanges:
      - test: c
    - require:
      - test: f
both:
  test.nop:
    - onchanges:
      - test: n
    - onchanges_any:
      - test: c
