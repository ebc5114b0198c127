a:
  salt.runner:
    - name: manage.present
b:
  salt.runner:
    - name: manage.not_present
c:
  salt.runner:
    - name: manage.alived
    - subset: [other]
