a:
  salt.wheel:
    - name: key.list_all
    - parallel: True
b:
  salt.wheel:
    - name: key.list_all
    - parallel: True
c:
  salt.wheel:
    - name: key.list_all
    - require: [a, b]
