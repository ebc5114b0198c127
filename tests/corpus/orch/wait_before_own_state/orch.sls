a:
  test.succeed_with_changes:
    - fire_event: up
b:
  salt.wait_for_event:
    - name: 'salt/state_result/*/m1/up'
    - id_list: [m1]
    - timeout: 5
