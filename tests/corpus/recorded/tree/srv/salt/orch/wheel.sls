keys:
  salt.wheel:
    - name: key.list_all
