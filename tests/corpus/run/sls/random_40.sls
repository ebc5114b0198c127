s0:
  test.fail_without_changes: []
s1:
  test.fail_without_changes:
    - require_any:
      - test: s0
s2:
  test.fail_without_changes:
    - require:
      - test: s0
    - onfail_all:
      - test: s1
s3:
  test.fail_without_changes:
    - onchanges_any:
      - test: s2
      - test: s0
      - test: s1
    - watch:
      - test: s1
