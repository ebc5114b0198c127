a:
  salt.state:
    - tgt: '*'
    - sls: good
    - unless: 'true'
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - onlyif: 'false'
c:
  salt.state:
    - tgt: '*'
    - sls: good
    - creates: @TMP@
d:
  salt.state:
    - tgt: '*'
    - sls: good
    - onlyif: [{fun: test.true}]
    - unless: [{fun: file.file_exists, args: [/nonexistent]}]
    - creates: /nonexistent
