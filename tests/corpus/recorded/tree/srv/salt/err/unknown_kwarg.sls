a:
  file.absent:
    - name: @TMP@/x
    - bogus: 1
