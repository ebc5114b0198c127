a:
  cmd.run:
    - name: "sleep 0.2; @PINCH@ -c @ENV@/etc --local event.send my/other '{\"id\": \"x\"}' > /dev/null"
    - bg: True
b:
  salt.wait_for_event:
    - name: my/other
    - id_list: [x]
    - timeout: 5
