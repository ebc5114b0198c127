f:
  test.fail_without_changes: []
a:
  test.succeed_with_changes:
    - require:
      - test: f
p:
  test.succeed_with_changes:
    - prereq:
      - test: a
ok:
  test.succeed_with_changes: []
w:
  test.succeed_without_changes:
    - watch:
      - test: ok
pw:
  test.succeed_with_changes:
    - prereq:
      - test: w
o:
  test.succeed_with_changes:
    - onchanges:
      - test: c
c:
  test.nop: []
po:
  test.succeed_with_changes:
    - prereq:
      - test: o
