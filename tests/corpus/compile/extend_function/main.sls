include:
  - other
extend:
  o:
    test:
      - succeed_with_changes
