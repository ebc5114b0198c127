a:
  salt.state:
    - tgt: '*'
    - sls: good
    - batch: 1
b:
  salt.state:
    - tgt: '*'
    - sls: good
    - subset: 1
c:
  salt.state:
    - tgt: '*'
    - sls: good
    - timeout: 30
