w:
  cmd.wait:
    - name: echo hello
    - watch:
      - test: a
a:
  test.succeed_with_changes: []
