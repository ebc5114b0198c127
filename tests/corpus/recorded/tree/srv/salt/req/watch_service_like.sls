f:
  file.managed:
    - name: @TMP@/watched
    - contents: hello
w:
  cmd.run:
    - name: echo restarted
    - onchanges:
      - file: f
