u_all:
  test.succeed_with_changes:
    - unless:
      - fun: test.ping
      - fun: test.echo
        text: x
u_one:
  test.succeed_with_changes:
    - unless:
      - fun: test.ping
      - fun: test.echo
        text: ''
o_all:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.ping
      - fun: test.echo
        args: [x]
o_one:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.ping
      - fun: test.echo
        args: ['']
deep:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.arg
        get_return: kwargs:a:b
        a: {b: [1]}
deep_no:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.arg
        get_return: kwargs:a:c
        a: {b: [1]}
nofun:
  test.succeed_with_changes:
    - unless:
      - nofun: x
nofun_after:
  test.succeed_with_changes:
    - unless:
      - fun: test.ping
      - nofun: x
bad:
  test.succeed_with_changes:
    - unless: 1
bad2:
  test.succeed_with_changes:
    - onlyif: 1
both:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.ping
    - creates: [/, /proc]
both2:
  test.succeed_with_changes:
    - onlyif:
      - fun: test.echo
        text: ''
    - unless:
      - fun: test.echo
        text: ''
    - creates: /
no_creates:
  test.succeed_with_changes:
    - creates: [/, /nonexistent]
slotted:
  test.succeed_with_changes:
    - unless:
      - fun: test.echo
        text: __slot__:salt:test.echo("x")
