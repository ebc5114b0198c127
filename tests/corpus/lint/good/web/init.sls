{% from 'web/map.jinja' import web with context %}
include:
  - .config

{{ web.package }}:
  pkg.installed: []
