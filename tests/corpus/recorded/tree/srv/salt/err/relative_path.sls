a:
  file.managed:
    - name: rel/path
    - contents: x
