deploy:
  runner.state.orchestrate:
    - mods: orch.deploy
    - pillar:
        id: {{ data.id }}
