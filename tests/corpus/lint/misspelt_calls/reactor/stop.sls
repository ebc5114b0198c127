forget:
  wheel.key.delet:
    - args: [{match: web1}]

deploy:
  runner.state.orchestrat:
    - args: [{mods: deploy}]

tell:
  local.test.ping:
    - tgt: '*'
