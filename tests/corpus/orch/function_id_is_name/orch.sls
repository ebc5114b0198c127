test.ping:
  salt.function:
    - tgt: '*'
