a:
  salt.state:
    - tgt: '*'
    - sls: bad
    - fail_minions: [m1]
b:
  salt.state:
    - tgt: '*'
    - sls: bad
    - fail_minions: 'x, m1'
c:
  salt.state:
    - tgt: '*'
    - sls: bad
    - fail_minions: [x]
d:
  salt.state:
    - tgt: '*'
    - sls: good
    - fail_minions: 5
