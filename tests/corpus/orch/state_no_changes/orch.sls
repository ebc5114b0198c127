a:
  salt.state:
    - tgt: '*'
    - sls: calm
