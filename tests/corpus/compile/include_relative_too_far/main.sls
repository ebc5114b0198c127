include:
  - ...x
