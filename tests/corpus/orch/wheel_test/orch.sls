a:
  salt.wheel:
    - name: key.list_all
b:
  salt.wheel:
    - name: minions.nosuch
