f:
  test.fail_without_changes: []
g:
  test.nop:
    - require:
      - test: f
h:
  test.succeed_with_changes:
    - onfail:
      - test: g
i:
  test.succeed_with_changes:
    - onfail:
      - test: ok
    - onchanges:
      - test: ch
j:
  test.succeed_with_changes:
    - onfail:
      - test: f
    - require:
      - test: ok
k:
  test.succeed_with_changes:
    - onfail:
      - test: f
    - require:
      - test: f
l:
  test.succeed_with_changes:
    - onfail_all:
      - test: f
      - test: g
ok:
  test.nop: []
ch:
  test.succeed_with_changes: []
