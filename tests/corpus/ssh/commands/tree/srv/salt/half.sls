half:
  cmd.run:
    - name: exit {{ 3 if grains.id == 'web2' else 0 }}
