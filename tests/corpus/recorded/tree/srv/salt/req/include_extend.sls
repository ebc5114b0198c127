include:
  - req.require
extend:
  a:
    test:
      - name: extended
