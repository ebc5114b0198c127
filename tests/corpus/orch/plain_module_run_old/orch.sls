a:
  module.run:
    - name: test.echo
    - text: hello
b:
  module.run:
    - name: test.kwarg
    - kwargs: {k: v}
