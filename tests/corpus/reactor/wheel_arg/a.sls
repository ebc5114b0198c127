x:
  wheel.key.delete:
    - args:
        match: {{ data.id }}
