a:
  test.nosuch: []
b:
  test.show_notification:
    - text: hi
c:
  test.succeed_with_changes:
    - require:
      - test: a
u:
  test.nop:
    - umask: 'xyz'
v:
  test.nop:
    - umask: 22
n:
  test.succeed_with_changes:
    - no_log: True
