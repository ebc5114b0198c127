g:
  test.succeed_without_changes: []
c:
  test.succeed_with_changes: []
f:
  test.fail_without_changes: []
s:
  test.nop:
    - require:
      - test: f
fc:
  test.fail_with_changes: []
k:
  test.succeed_with_changes:
    - onlyif: 'false'
cfg:
  test.configurable_test_state:
    - changes: True
    - result: True
    - warnings: beware
