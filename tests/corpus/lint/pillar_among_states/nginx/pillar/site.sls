nginx:
  port: 80
