# Deploys to one node: salt-run state.orchestrate orch.deploy pillar='{node: web-asg-1}'
# If the smoke test fails, it exits with code 1, and the node stays out of service.
{% set node = pillar['node'] %}

remove_from_lb:
  salt.function:
    - name: cmd.run
    - tgt: G@role:loadbalancer
    - tgt_type: compound
    - arg:
      - lb out {{ node }}

deploy_app:
  salt.state:
    - tgt: {{ node }}
    - sls:
      - web.app
    - queue: True
    - require:
      - salt: remove_from_lb

run_smoke_tests:
  salt.function:
    - name: cmd.run
    - tgt: {{ node }}
    - arg:
      - curl -fsS -m 30 http://127.0.0.1/health
    - require:
      - salt: deploy_app

add_to_lb:
  salt.function:
    - name: cmd.run
    - tgt: G@role:loadbalancer
    - tgt_type: compound
    - arg:
      - lb in {{ node }}
    - require:
      - salt: run_smoke_tests
