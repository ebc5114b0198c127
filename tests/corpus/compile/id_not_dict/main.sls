a: 5
b: word
c:
  - x
