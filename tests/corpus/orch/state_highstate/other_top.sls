base:
  '*': [calm]
