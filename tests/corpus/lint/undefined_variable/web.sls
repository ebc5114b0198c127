{% set port = 80 %}

/etc/web.conf:
  file.managed:
    - contents: |
        listen {{ prot }}
