a:
  salt.state:
    - tgt: '*'
    - sls: pillared
b:
  salt.state:
    - tgt: '*'
    - sls: pillared
    - pillar: {who: step}
c:
  salt.state:
    - tgt: '*'
    - sls: pillared
