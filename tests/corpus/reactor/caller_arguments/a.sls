by_name:
  caller.service.restart:
    - args:
      - name: nginx
      - no_block: True
by_place:
  caller.file.write:
    - args:
      - /etc/motd
      - {{ data['id'] }}
mixed:
  caller.test.arg:
    - args:
      - first
      - name: value
two_keys:
  caller.test.arg:
    - args:
      - a: 1
        b: 2
as_dictionary:
  caller.test.kwarg:
    - args:
        a: 1
old:
  caller.cmd.run:
    - arg:
      - echo hello
    - kwarg:
        python_shell: True
bad:
  caller.test.ping:
    - args: word
