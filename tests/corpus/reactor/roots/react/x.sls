{% from 'react/map.jinja' import target %}
x:
  local.test.ping:
    - tgt: {{ target }}
