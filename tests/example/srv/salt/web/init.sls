# What a highstate keeps in place: the files, and the server that serves them.
include:
  - web.files
  - web.running
