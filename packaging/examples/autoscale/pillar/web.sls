app:
  release: 1

mine_functions:
  web_address:
    - mine_function: network.ip_addrs
