/etc/haproxy/haproxy.cfg:
  file.managed:
    - source: salt://lb/bad.cfg
    - template: jinja
