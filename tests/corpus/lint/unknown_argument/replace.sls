/etc/motd:
  file.replace:
    - pattern: a
    - repl: b
    - colour: red
