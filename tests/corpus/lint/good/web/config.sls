/etc/web.conf:
  file.managed:
    - source: salt://web/files/web.conf
    - mode: '0644'
    - require:
      - pkg: nginx
