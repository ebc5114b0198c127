{% from 'web/map.jinja' import web with context %}
include:
  - .config

{{ web.package }}:
  pkg.installed: []

# `match` belongs to iptables, and is no `watch`.
reached:
  iptables.append:
    - table: filter
    - chain: INPUT
    - match: state
    - connstate: NEW
    - dport: 80
    - jump: ACCEPT
