motd:
  file.managed:
    - name /etc/motd
    - contents: hello
