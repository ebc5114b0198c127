sls:
  salt.state:
    - tgt: web1
    - ssh: True
    - sls: nosuch
unknown:
  salt.function:
    - name: nosuch.fun
    - tgt: web1
    - ssh: True
