a:
  salt.wheel:
    - name: minions.nosuch
b:
  salt.wheel:
    - name: key.list_all
