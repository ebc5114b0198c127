n:
  salt.state:
    - tgt: {{ nosuch.x }}
