bad_state:
  salt.state:
    - tgt: '*'
    - sls:
      - bad_state
never:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - require:
      - salt: bad_state
