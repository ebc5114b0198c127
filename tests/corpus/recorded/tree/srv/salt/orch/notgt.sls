x:
  salt.state:
    - sls: good_state
