a:
  salt.state:
    - tgt: '*'
    - sls: only_dev
    - saltenv: dev
b:
  salt.state:
    - tgt: '*'
    - sls: only_dev
