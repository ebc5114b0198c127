a:
  cmd.run:
    - name: sleep 0.5
    - parallel: True
b:
  cmd.run:
    - name: sleep 0.5
    - parallel: True
c:
  test.succeed_with_changes:
    - require: [a, b]
