name: web1
