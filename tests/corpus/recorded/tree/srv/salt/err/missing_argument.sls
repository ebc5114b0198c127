a:
  test.configurable_test_state: []
b:
  file.symlink:
    - name: @TMP@/x
