deploy:
  locl.state.apply:
    - tgt: {{ data['id'] }}
    - arg: [web]
