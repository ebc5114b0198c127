base:
  '*':
    - pdata
