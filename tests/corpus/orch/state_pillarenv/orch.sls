a:
  salt.state:
    - tgt: '*'
    - sls: pillared
    - pillarenv: dev
b:
  salt.state:
    - tgt: '*'
    - sls: pillared
