slow_a:
  cmd.run:
    - name: sleep 0.5
