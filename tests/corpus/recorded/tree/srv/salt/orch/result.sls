good_state:
  salt.state:
    - tgt: '*'
    - sls: good_state

bad_state:
  salt.state:
    - tgt: '*'
    - sls: bad_state

mymod.true_test:
  salt.function:
    - tgt: '*'

mymod.false_test:
  salt.function:
    - tgt: '*'

test.true_:
  salt.function:
    - tgt: '*'

after_bad:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - require:
      - salt: bad_state

onfail_bad:
  salt.state:
    - tgt: '*'
    - sls: good_state
    - onfail:
      - salt: bad_state
