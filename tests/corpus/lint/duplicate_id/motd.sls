/etc/motd:
  file.managed:
    - contents: hello

/etc/issue:
  file.managed:
    - contents: hello

/etc/motd:
  file.absent: []
