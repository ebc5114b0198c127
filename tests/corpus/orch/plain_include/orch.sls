include: [more]
a:
  salt.state:
    - tgt: '*'
    - sls: good
    - require: [{sls: more}]
