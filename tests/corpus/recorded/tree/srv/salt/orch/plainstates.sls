a:
  test.succeed_with_changes: []
b:
  file.managed:
    - name: @TMP@/orch_plain
    - contents: hi
