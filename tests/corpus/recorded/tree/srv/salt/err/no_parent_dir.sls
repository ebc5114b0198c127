a:
  file.managed:
    - name: @TMP@/no/such/dir/f
    - contents: x
