a:
  salt.runner:
    - name: config.get
    - nosuch: 1
