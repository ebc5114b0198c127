base:
  'web-asg-*':
    - web
