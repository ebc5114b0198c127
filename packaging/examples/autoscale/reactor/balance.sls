{# `salt/key` is fired for every change of a key; only deleted keys of this group matter here. #}
{% if tag != 'salt/key' or (data['act'] == 'delete' and data['id'].startswith('web-asg-')) %}
balance:
  local.state.apply:
    - tgt: G@role:loadbalancer
    - tgt_type: compound
    - args:
      - mods: haproxy
      - queue: True
{% endif %}
