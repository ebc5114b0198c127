a:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - unless: 'true'
b:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - onlyif: 'false'
c:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - creates: @TMP@
d:
  salt.runner:
    - name: test.arg
    - arg: [1]
    - onlyif: [{fun: test.true}]
    - unless: [{fun: file.file_exists, args: [/nonexistent]}]
    - creates: /nonexistent
