a:
  module.run:
    - test.echo:
      - text: hello
    - test.arg:
      - 1
      - two
