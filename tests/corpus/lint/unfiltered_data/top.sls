base:
  '*':
    - lb
