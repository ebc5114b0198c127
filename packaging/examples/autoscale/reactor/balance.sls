{# `salt/key` tells of every key; those of this group that go are what matters. #}
{% if tag != 'salt/key' or (data['act'] == 'delete' and data['id'].startswith('web-asg-')) %}
balance:
  local.state.apply:
    - tgt: G@role:loadbalancer
    - tgt_type: compound
    - args:
      - mods: haproxy
      - queue: True
{% endif %}
