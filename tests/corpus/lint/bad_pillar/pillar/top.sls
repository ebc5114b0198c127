base:
  '*':
    - web
    - nothing
