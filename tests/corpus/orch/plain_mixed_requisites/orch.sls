file:
  file.managed:
    - name: @TMP@/f
    - contents: hi
a:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{file: file}]
b:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - onchanges: [{salt: a}]
c:
  salt.runner:
    - name: test.arg
    - watch: [{salt: b}]
e:
  test.nop:
    - require: [{salt: c}]
g:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - onchanges: [{test: e}]
