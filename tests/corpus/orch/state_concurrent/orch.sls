a:
  salt.state:
    - tgt: '*'
    - sls: good
    - concurrent: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - concurrent: 'yes'
