a:
  salt.function:
    - name: test.echo
    - tgt: '*'
