t:
  test.succeed_with_changes:
    - onlyif: 'true'
f:
  test.succeed_with_changes:
    - onlyif: 'false'
l:
  test.succeed_with_changes:
    - onlyif:
      - 'true'
      - 'false'
fun:
  test.succeed_with_changes:
    - onlyif:
      - fun: file.file_exists
        path: /etc/passwd
