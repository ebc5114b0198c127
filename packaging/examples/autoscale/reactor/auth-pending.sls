{# A name is all that is known of such a node: for networks in which nobody else can take one. #}
{% if data['act'] == 'pend' and data['id'].startswith('web-asg-') %}
accept_{{ data['id'] }}:
  wheel.key.accept:
    - args:
      - match: {{ data['id'] }}
{% endif %}
