base:
  '*': web
