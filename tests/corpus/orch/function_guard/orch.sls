a:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - unless: 'true'
b:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - onlyif: 'false'
c:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - creates: @TMP@
d:
  salt.function:
    - name: test.arg
    - tgt: '*'
    - arg: [1]
    - onlyif: [{fun: test.true}]
    - unless: [{fun: file.file_exists, args: [/nonexistent]}]
    - creates: /nonexistent
