/etc/web.conf:
  file.managed:
    - source: salt://web/files/web.conf
