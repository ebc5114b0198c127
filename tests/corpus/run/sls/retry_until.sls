a:
  test.succeed_with_changes:
    - retry:
        attempts: 3
        interval: 0
        until: False
b:
  test.nop:
    - retry: False
c:
  test.nop:
    - retry: yes please
d:
  test.fail_without_changes:
    - retry:
        attempts: 2
        interval: 0
        splay: many
w:
  test.succeed_without_changes:
    - retry:
        attempts: 2
        interval: 0
        until: False
    - watch:
      - test: a
