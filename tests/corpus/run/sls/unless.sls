t:
  test.succeed_with_changes:
    - unless: 'true'
f:
  test.succeed_with_changes:
    - unless: 'false'
l:
  test.succeed_with_changes:
    - unless:
      - 'false'
      - 'true'
fun:
  test.succeed_with_changes:
    - unless:
      - fun: file.file_exists
        path: /etc/passwd
