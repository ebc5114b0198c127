a:
  salt.runner:
    - name: config.get
    - key: id
b:
  salt.runner:
    - name: config.get
    - key: nosuch
    - default: none
