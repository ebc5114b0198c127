a:
  test.fail_with_changes:
    - parallel: True
b:
  test.succeed_with_changes:
    - require:
      - test: a
c:
  test.succeed_with_changes:
    - parallel: True
d:
  test.nop:
    - require:
      - test: c
    - onfail:
      - test: a
e:
  test.fail_without_changes:
    - parallel: True
    - retry:
        attempts: 2
        interval: 0
g:
  test.nop:
    - parallel: True
    - unless:
      - fun: test.ping
