good_state:
  salt.state:
    - tgt: '*'
    - sls:
      - good_state
