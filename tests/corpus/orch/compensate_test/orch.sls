a:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [a]
    - compensate: undo_a
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [b]
    - compensate: [{salt: undo_b}, undo_a]
idle:
  test.succeed_without_changes:
    - compensate: undo_idle
bad:
  salt.function:
    - name: test.false
    - tgt: '*'
    - compensate: undo_bad
after:
  test.succeed_with_changes:
    - require: [{salt: bad}]
    - compensate: undo_after
last:
  test.succeed_with_changes:
    - finally: True
undo_a:
  salt.function:
    - name: test.true
    - tgt: '*'
undo_b:
  salt.function:
    - name: test.false
    - tgt: '*'
undo_idle:
  salt.function:
    - name: test.true
    - tgt: '*'
undo_bad:
  salt.function:
    - name: test.true
    - tgt: '*'
undo_after:
  salt.function:
    - name: test.true
    - tgt: '*'
