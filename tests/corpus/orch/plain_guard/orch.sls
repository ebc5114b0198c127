a:
  test.succeed_with_changes:
    - unless: 'true'
b:
  test.succeed_with_changes:
    - onlyif: 'false'
c:
  test.succeed_with_changes:
    - creates: @TMP@
d:
  test.succeed_with_changes:
    - onlyif: [{fun: test.true}]
    - unless: [{fun: file.file_exists, args: [/nonexistent]}]
    - creates: /nonexistent
