s0:
  test.succeed_with_changes: []
s1:
  test.fail_without_changes:
    - onchanges_any:
      - test: s0
    - onfail_all:
      - test: s0
    - onfail_any:
      - test: s0
s2:
  test.succeed_without_changes:
    - listen:
      - test: s1
s3:
  test.succeed_with_changes:
    - onfail:
      - test: s2
      - test: s0
      - test: s1
