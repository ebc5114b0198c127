a:
  salt.state:
    - tgt: '*'
    - sls: bad
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - onfail: [a]
c:
  salt.state:
    - tgt: '*'
    - sls: good
    - onfail: [b]
