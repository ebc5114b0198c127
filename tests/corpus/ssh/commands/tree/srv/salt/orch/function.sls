fails:
  salt.function:
    - name: cmd.run
    - arg: ['exit 3']
    - tgt: web1
    - ssh: True
