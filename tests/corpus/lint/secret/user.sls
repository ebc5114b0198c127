alice:
  user.present:
    - password: hunter2hunter

bob:
  user.present:
    - password: $6$salt$hash

carl:
  user.present:
    - password: {{ pillar.get('carl', '!') }}
