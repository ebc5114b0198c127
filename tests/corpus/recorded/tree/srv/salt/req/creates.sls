e:
  test.succeed_with_changes:
    - creates: /etc/passwd
n:
  test.succeed_with_changes:
    - creates: /nonexistent
l:
  test.succeed_with_changes:
    - creates:
      - /etc/passwd
      - /nonexistent
