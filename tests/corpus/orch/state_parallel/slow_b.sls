slow_b:
  cmd.run:
    - name: sleep 0.5
