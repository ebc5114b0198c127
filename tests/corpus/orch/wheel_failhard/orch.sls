a:
  salt.wheel:
    - name: minions.nosuch
    - failhard: True
b:
  salt.wheel:
    - name: key.list_all
