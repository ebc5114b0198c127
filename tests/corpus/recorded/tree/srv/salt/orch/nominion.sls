x:
  salt.state:
    - tgt: 'nosuch*'
    - sls: good_state
y:
  salt.state:
    - tgt: 'nosuch*'
    - sls: good_state
    - expect_minions: True
