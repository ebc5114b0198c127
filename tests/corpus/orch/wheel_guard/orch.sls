a:
  salt.wheel:
    - name: key.list_all
    - unless: 'true'
b:
  salt.wheel:
    - name: key.list_all
    - onlyif: 'false'
c:
  salt.wheel:
    - name: key.list_all
    - creates: @TMP@
d:
  salt.wheel:
    - name: key.list_all
    - onlyif: [{fun: test.true}]
    - unless: [{fun: file.file_exists, args: [/nonexistent]}]
    - creates: /nonexistent
