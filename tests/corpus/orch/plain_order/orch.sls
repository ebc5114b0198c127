z:
  salt.state:
    - tgt: '*'
    - sls: calm
    - order: last
a:
  salt.state:
    - tgt: '*'
    - sls: calm
f:
  salt.state:
    - tgt: '*'
    - sls: calm
    - order: first
