a:
  cmd.run:
    - name: sleep 1; echo a
    - parallel: True
b:
  cmd.run:
    - name: sleep 1; echo b
    - parallel: True
c:
  test.nop:
    - require:
      - cmd: a
      - cmd: b
f:
  test.fail_without_changes:
    - parallel: True
