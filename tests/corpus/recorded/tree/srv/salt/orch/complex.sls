bootstrap_servers:
  salt.function:
    - name: cmd.run
    - tgt: 127.0.0.0/8
    - tgt_type: ipcidr
    - arg:
      - echo bootstrap

storage_setup:
  salt.state:
    - tgt: 'kernel:Linux'
    - tgt_type: grain
    - sls: good_state
    - require:
      - salt: webserver_setup

webserver_setup:
  salt.state:
    - tgt: '*'
    - highstate: True
