{# wheel.key.delete takes globs: an id is taken, and nothing else. A minion that fires this can name itself only, as `id` is the sender's. #}
{% if data['id'] | regex_match('(web-asg-[A-Za-z0-9-]+)$') %}
forget_{{ data['id'] }}:
  wheel.key.delete:
    - args:
      - match: {{ data['id'] }}
{% endif %}
