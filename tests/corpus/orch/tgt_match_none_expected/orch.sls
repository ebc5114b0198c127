a:
  salt.state:
    - tgt: 'nosuch*'
    - sls: good
    - expect_minions: False
