a:
  test.nop
b:
  test:
    - nop
c:
  test:
    - succeed_with_changes
    - name: cc
