a:
  file.managed:
    - name: @TMP@/sm
    - source: salt://nosuchfile
