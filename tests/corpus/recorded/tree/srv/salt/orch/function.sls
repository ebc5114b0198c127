mymod.true_test:
  salt.function:
    - tgt: '*'
mymod.false_test:
  salt.function:
    - tgt: '*'
echo:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg:
      - echo hello
raises:
  salt.function:
    - name: mymod.raises
    - tgt: '*'
nosuch:
  salt.function:
    - name: nosuch.fun
    - tgt: '*'
