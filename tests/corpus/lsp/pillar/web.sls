web:
  port: 8080
  workers:
    count: 2
