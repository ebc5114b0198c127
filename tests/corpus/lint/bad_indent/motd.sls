/etc/motd:
  file.managed:
    - contents: hello
   - mode: '0644'
