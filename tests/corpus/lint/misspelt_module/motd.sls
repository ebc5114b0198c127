/etc/motd:
  fiel.managed:
    - contents: hello
