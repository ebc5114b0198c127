fails:
  test.fail_without_changes
command:
  cmd.run:
    - name: echo out; echo err >&2; exit 3
needs:
  test.succeed_without_changes:
    - require: [{test: fails}]
