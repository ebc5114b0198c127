c:
  salt.wheel:
    - name: key.list_all
    - require: [{salt: b}]
b:
  salt.wheel:
    - name: key.list_all
    - require: [{salt: a}]
a:
  salt.wheel:
    - name: minions.nosuch
