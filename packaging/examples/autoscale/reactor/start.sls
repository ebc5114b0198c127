configure_{{ data['id'] }}:
  local.state.highstate:
    - tgt: {{ data['id'] }}
    - args:
      - queue: True
