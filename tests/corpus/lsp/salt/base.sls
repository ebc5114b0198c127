tools:
  pkg.installed:
    - name: curl

/etc/motd:
  file.managed:
    - contents: hello
