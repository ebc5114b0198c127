a:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['exit 3']
b:
  salt.function:
    - name: cmd.retcode
    - tgt: '*'
    - arg: ['exit 3']
