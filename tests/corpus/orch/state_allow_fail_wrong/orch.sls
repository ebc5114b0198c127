a:
  salt.state:
    - tgt: '*'
    - sls: good
    - allow_fail: many
