nginx:
  port: [80
