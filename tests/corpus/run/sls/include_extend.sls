include:
  - run.require
extend:
  a:
    test:
      - name: extended
