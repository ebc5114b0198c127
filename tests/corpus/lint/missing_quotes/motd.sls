/etc/motd:
  file.managed:
    - contents: Warning: no entry
