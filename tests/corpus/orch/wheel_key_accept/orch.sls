a:
  salt.wheel:
    - name: key.accept
    - match: web9
b:
  salt.wheel:
    - name: key.list
    - match: acc
    - require: [a]
c:
  salt.wheel:
    - name: key.delete
    - match: web9
    - require: [b]
d:
  salt.wheel:
    - name: key.list_all
    - require: [c]
