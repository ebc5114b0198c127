{# wheel.key.delete accepts globs, so only an id is passed on. A minion that fires this event can only delete itself, as `id` is the sender's. #}
{% if data['id'] | regex_match('(web-asg-[A-Za-z0-9-]+)$') %}
forget_{{ data['id'] }}:
  wheel.key.delete:
    - args:
      - match: {{ data['id'] }}
{% endif %}
