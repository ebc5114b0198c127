a:
  test.succeed_with_changes: []
b:
  test.succeed_with_changes:
    - compensate: undo
end:
  salt.function:
    - name: test.false
    - tgt: '*'
    - finally: True
undo:
  test.succeed_with_changes: []
