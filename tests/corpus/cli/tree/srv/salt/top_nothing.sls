base:
  '*':
    - nothing
