a:
  salt.state:
    - tgt: '*'
    - sls: pillared
    - pillar: {who: step}
b:
  salt.state:
    - tgt: '*'
    - sls: pillared
