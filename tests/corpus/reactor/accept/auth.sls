{% if data['act'] == 'pend' and data['id'].startswith('web-asg-') %}
accept_minion:
  wheel.key.accept:
    - args:
      - match: {{ data['id'] }}

highstate_later:
  local.state.highstate:
    - tgt: {{ data['id'] }}
    - require:
      - wheel: accept_minion
{% endif %}
