a:
  salt.wait_for_event:
    - name: my/ready
