/etc/motd:
  file.replace:
    - pattern: a
