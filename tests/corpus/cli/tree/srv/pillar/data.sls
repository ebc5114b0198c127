key: value
nested:
  list:
    - 1
    - two
    - 3.5
    - true
    - null
  dict:
    a: b
    c:
      d: e
web:
  opts:
    b: 3
