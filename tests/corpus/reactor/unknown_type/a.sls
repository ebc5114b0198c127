x:
  module.run:
    - name: test.ping
