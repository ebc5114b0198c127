a:
  module.run:
    - test.nosuch: []
b:
  module.run:
    - name: test.nosuch
