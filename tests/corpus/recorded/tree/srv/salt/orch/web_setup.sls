webserver_setup:
  salt.state:
    - tgt: '*'
    - highstate: True
