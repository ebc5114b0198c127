# The states of a highstate: the files, and the server that serves them.
include:
  - web.files
  - web.running
