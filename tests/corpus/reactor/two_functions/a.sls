x:
  local.test.ping:
    - tgt: m1
  runner.manage.up: []
  wheel.key.list_all: []
