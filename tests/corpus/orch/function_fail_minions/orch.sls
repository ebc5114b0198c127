a:
  salt.function:
    - name: test.false
    - tgt: '*'
    - fail_minions: [m1]
b:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['exit 3']
    - fail_minions: [m1]
