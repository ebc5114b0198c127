a:
  test.succeed_without_changes:
    - names:
      - n1
      - n2:
        - comment: over
      - n3
after:
  test.nop:
    - require:
      - test: a
