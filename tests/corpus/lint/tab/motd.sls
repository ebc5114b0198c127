/etc/motd:
  file.managed:
	- contents: hello
