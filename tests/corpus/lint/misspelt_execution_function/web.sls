web:
  test.nop:
    - name: {{ salt['grains.gett']('os') }}
