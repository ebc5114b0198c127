{# Accepts a node by its name only. Use this only in networks where no other machine can use such a name. #}
{% if data['act'] == 'pend' and data['id'].startswith('web-asg-') %}
accept_{{ data['id'] }}:
  wheel.key.accept:
    - args:
      - match: {{ data['id'] }}
{% endif %}
