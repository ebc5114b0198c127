include:
  - other
extend:
  o:
    cmd.run:
      - name: 'true'
