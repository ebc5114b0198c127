a:
  cmd.run:
    - name: echo a > @TMP@/made
    - compensate: undo
b:
  salt.function:
    - name: test.false
    - tgt: '*'
    - failhard: True
c:
  test.succeed_with_changes: []
undo:
  file.absent:
    - name: @TMP@/made
    - require: [{cmd: a}]
needs:
  test.succeed_without_changes:
    - finally: True
    - require: [{test: c}]
end:
  cmd.run:
    - name: test ! -e @TMP@/made
    - finally: True
