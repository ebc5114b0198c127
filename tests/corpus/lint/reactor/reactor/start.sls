start:
  lcoal.state.apply:
    - tgt: '*'
    - arg: [web]
