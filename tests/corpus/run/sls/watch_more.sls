z:
  test.succeed_with_changes: []
zz:
  test.fail_with_changes: []
own:
  test.succeed_with_changes:
    - watch:
      - test: z
guarded:
  test.succeed_without_changes:
    - unless:
      - fun: test.ping
    - watch:
      - test: z
any:
  test.succeed_without_changes:
    - watch_any:
      - test: z
      - test: zz
both:
  test.succeed_without_changes:
    - watch:
      - test: z
    - require:
      - test: zz
change_and_req:
  test.succeed_without_changes:
    - watch:
      - test: z
      - test: b
    - onchanges:
      - test: z
b:
  test.nop: []
