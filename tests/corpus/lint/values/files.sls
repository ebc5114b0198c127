/etc/motd:
  file.managed:
    - contents: hello
    - mode: 0644

nginx:
  pkg.installed:
    - version: 1.10

mapped:
  test.nop:
    - port: 22:22

text:
  file.managed:
    - name: /etc/text
    - contents: |
        mode: 0644
        version: 1.10
