a:
  test.fail_without_changes:
    - retry:
        attempts: 3
        interval: 1
        splay: 0
b:
  test.succeed_without_changes:
    - retry: True
c:
  test.configurable_test_state:
    - result: False
    - changes: False
    - retry:
        attempts: 2
        interval: 1
        until: False
