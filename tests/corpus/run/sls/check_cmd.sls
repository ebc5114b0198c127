a:
  test.succeed_with_changes:
    - check_cmd:
      - 'true'
b:
  test.succeed_with_changes:
    - check_cmd:
      - 'false'
c:
  test.fail_without_changes:
    - check_cmd:
      - 'true'
