a:
  salt.runner:
    - name: manage.up
b:
  salt.runner:
    - name: manage.down
c:
  salt.runner:
    - name: manage.status
