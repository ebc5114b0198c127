x:
  salt.state:
    - tgt: '*'
    - sls: nosuchsls
