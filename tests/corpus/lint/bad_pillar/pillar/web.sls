port: 80
   name: x
