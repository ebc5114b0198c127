a:
  salt.state:
    - tgt: '*'
    - sls: show.other
b:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - onchanges:
      - salt: a
