/etc/nginx/site.conf:
  file.managed:
    - source: salt://web/site.conf
    - context:
        port: {{ pillar['web']['port'] }}
