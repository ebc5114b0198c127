cache_mods:
  salt.runner:
    - name: test.arg
    - arg:
      - a1
    - kwarg:
        k: v
manage.up:
  salt.runner: []
