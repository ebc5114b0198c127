a:
  salt.runner:
    - name: saltutil.sync_modules
b:
  salt.runner:
    - name: saltutil.sync_wheel
