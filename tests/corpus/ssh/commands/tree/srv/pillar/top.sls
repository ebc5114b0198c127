base:
  'web*':
    - colors
