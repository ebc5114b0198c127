highstate:
  local.state.aply:
    - tgt: {{ data['id'] }}
