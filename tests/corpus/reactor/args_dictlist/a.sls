x:
  local.state.single:
    - tgt: {{ tag.split('/')[2] }}
    - args:
      - fun: file.managed
      - name: /tmp/x
      - source: salt://x
