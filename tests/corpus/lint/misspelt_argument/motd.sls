/etc/motd:
  file.managed:
    - mode: '0644'
    - contnets: hello
