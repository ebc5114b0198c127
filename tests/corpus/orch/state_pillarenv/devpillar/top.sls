dev:
  '*': [data]
