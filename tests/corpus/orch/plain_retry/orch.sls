a:
  cmd.run:
    - name: "test -e @TMP@/there || { touch @TMP@/there; exit 1; }"
    - retry: {attempts: 2, interval: 0}
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{cmd: a}]
