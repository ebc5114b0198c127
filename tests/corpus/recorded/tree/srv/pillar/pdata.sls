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
