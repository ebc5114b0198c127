tell:
  local.cmd.run:
    - tgt: {{ data['id'] }}
    - args:
      - cmd: logger {{ data['data']['text'] }}
{% set release = data['post']['release'] | int %}
deploy {{ release }}:
  runner.state.orchestrate:
    - args:
      - mods: deploy
