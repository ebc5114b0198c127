a:
  salt.state:
    - tgt: '*'
    - sls: [good, calm]
b:
  salt.state:
    - tgt: '*'
    - sls: "good,calm"
