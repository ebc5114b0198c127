base:
  '*':
    - web
    - databse
