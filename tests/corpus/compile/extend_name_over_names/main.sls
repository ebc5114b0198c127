include:
  - other
extend:
  o:
    test:
      - name: only
