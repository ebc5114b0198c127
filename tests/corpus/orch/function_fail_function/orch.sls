a:
  salt.function:
    - name: test.echo
    - tgt: '*'
    - arg: [x]
    - fail_function: test.is_x
b:
  salt.function:
    - name: test.echo
    - tgt: '*'
    - arg: ['']
    - fail_function: test.echo
c:
  salt.function:
    - name: test.echo
    - tgt: '*'
    - arg: [x]
    - fail_function: test.echo
