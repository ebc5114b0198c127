include:
  - sub
