base:
  '*': [good, calm]
