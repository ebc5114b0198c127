a:
  test.nop:
    - require:
      - file.managed: b
