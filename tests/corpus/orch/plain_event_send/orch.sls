a:
  event.send:
    - name: my/tag
    - data: {x: 1}
