a:
  salt.wheel:
    - name: key.list_all
